#include "ps/membership/coordinator_locator.h"

#include <utility>

#include <fmt/format.h>

#include "ps/membership/leadership.h"
#include "trireme/error.h"
#include "trireme/message.h"

namespace trireme::ps {
namespace {

constexpr Seconds kAskEvery{0.25};

}  // namespace

CoordinatorLocator::CoordinatorLocator(const std::string& where, const TlsFiles& etcd_tls) {
  if (is_etcd_location(where)) {
    thread_ =
        std::thread([this, location = parse_etcd_location(where, etcd_tls)] { run(location); });
  } else {
    require(etcd_tls == TlsFiles{},
            fmt::format("--etcd-ca, --etcd-cert and --etcd-key are for etcd+tls://, not for {}",
                        in_quotes(where)));
    note(comm::to_text(comm::parse_address(where)), "");
  }
}

CoordinatorLocator::~CoordinatorLocator() {
  {
    const MutexLock lock(mutex_);
    is_stopping_ = true;
    stopped_.notify_all();
  }
  if (thread_.joinable()) {
    thread_.join();
  }
}

void CoordinatorLocator::run(const EtcdLocation& location) {
  Etcd etcd(location);
  const std::string key = leader_key(location);
  for (;;) {
    try {
      const EtcdRead leader = etcd.get(key, comm::deadline_in(kEtcdPatience));
      if (leader.found) {
        note(comm::to_text(comm::parse_address(leader_address(leader.found->value))), "");
      } else {
        note(std::nullopt, fmt::format("no coordinator is recorded as {} in etcd", key));
      }
    } catch (const Error& error) {
      note(std::nullopt, error.what());
    }
    const MutexLock lock(mutex_);
    const comm::Deadline next = comm::deadline_in(kAskEvery);
    while (!is_stopping_ && !comm::passed(next)) {
      stopped_.wait_until(mutex_, next);
    }
    if (is_stopping_) {
      return;
    }
  }
}

void CoordinatorLocator::note(std::optional<std::string> address, std::string problem) {
  const MutexLock lock(mutex_);
  problem_ = std::move(problem);
  if (address && *address != address_) {
    address_ = std::move(*address);
    ++changes_;
  }
}

std::optional<std::string> CoordinatorLocator::take_change(std::uint64_t& seen) const {
  const MutexLock lock(mutex_);
  return std::exchange(seen, changes_) != changes_ ? std::optional(address_) : std::nullopt;
}

std::string CoordinatorLocator::problem() const {
  const MutexLock lock(mutex_);
  return problem_;
}

}  // namespace trireme::ps
