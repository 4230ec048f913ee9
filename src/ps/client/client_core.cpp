#include "ps/client/client_core.h"

#include <algorithm>
#include <random>
#include <utility>

#include <fmt/format.h>

#include "comm/net/secret.h"
#include "ps/host/event_loop.h"
#include "trireme/error.h"
#include "trireme/message.h"

namespace trireme::ps {
namespace {

constexpr Seconds kTick{0.005};

std::uint64_t random_number() {
  std::random_device device;
  return (static_cast<std::uint64_t>(device()) << 32 | device()) & (kFirstWorker - 1);
}

KeySet to_key_set(const Keys& keys) {
  return {keys.begin(), keys.end(), {keys.listed().begin(), keys.listed().end()}};
}

}  // namespace

ClientCore::ClientCore(const ParameterClientOptions& options)
    : options_(options),
      self_(worker_node(random_number())),
      client_({.id = self_, .timing = timing_for(options.lease)}),
      reactor_({.self = self_,
                .secret = comm::Secret::from_text(options.secret),
                .encryption = options.encrypt == Encrypt::Yes ? comm::Encryption::Tls
                                                              : comm::Encryption::None},
               {.message = [this](NodeId from, Message& message) { take(from, message); },
                .connected =
                    [this](NodeId peer) {
                      mutex_.assume_held();
                      client_.reconnected(peer, micros(), out_);
                    }}) {
  reactor_.set_address(NodeId::Coordinator, options.coordinator);
  background_ = std::thread([this] { run_background(); });
}

ClientCore::~ClientCore() {
  stopping_ = true;
  reactor_.wake();
  background_.join();
  const MutexLock lock(mutex_);
  client_.leave(out_);
  send_all();
}

Micros ClientCore::micros() {
  return micros_now();
}

/// From the reactor, whose caller holds the mutex.
void ClientCore::take(NodeId from, Message& message) {
  mutex_.assume_held();
  client_.handle(Envelope{from, self_, std::move(message)}, micros(), out_);
  complete();  // before the next message reuses the buffer
}

void ClientCore::complete() {
  for (const Completion& completion : client_.take_completions()) {
    const auto at = parts_.find(completion.op);
    if (at == parts_.end()) {
      continue;
    }
    Operation& operation = *at->second.operation;
    if (!operation.into.empty() && !operation.is_abandoned) {
      const std::span<float> into =
          operation.into.subspan(at->second.first * operation.width, completion.values.size());
      std::ranges::copy(completion.values.view(), into.begin());
    }
    --operation.left;
    parts_.erase(at);
  }
}

void ClientCore::send_all() {
  if (client_.addresses() != known_) {
    known_ = client_.addresses();
    for (const auto& [node, address] : known_) {
      reactor_.set_address(node, address);
      reactor_.connect(node);  // tails acknowledge pushes that were sent to heads
    }
  }
  for (const Envelope& envelope : std::exchange(out_, {})) {
    reactor_.send(envelope.to, envelope.message);
  }
  reactor_.flush();
}

/// Waits for events without the mutex, then processes them.
void ClientCore::drive(comm::Deadline deadline) {
  const Reactor::Events events = reactor_.wait(deadline);
  const MutexLock lock(mutex_);
  reactor_.process(events);
  send_all();
}

void ClientCore::run_background() {
  while (!stopping_) {
    bool has_driver = false;
    {
      const MutexLock lock(mutex_);
      client_.tick(micros(), out_);
      send_all();
      has_driver = is_driven_ || comm::Clock::now() - last_driven_ < comm::duration(kTick);
      is_driven_ = is_driven_ || !has_driver;
    }
    if (has_driver) {
      std::this_thread::sleep_for(comm::duration(kTick));
      continue;
    }
    drive(comm::deadline_in(kTick));
    const MutexLock lock(mutex_);
    is_driven_ = false;
    changed_.notify_all();
  }
}

bool ClientCore::wait_until(comm::Deadline deadline,
                            const std::function<bool(const Client&)>& done) {
  for (;;) {
    bool may_drive = false;
    {
      const MutexLock lock(mutex_);
      if (done(client_)) {
        return true;
      }
      if (comm::passed(deadline)) {
        return false;
      }
      last_driven_ =
          comm::Clock::now();  // the background thread leaves the connections to this one
      if (is_driven_) {
        ++waiting_;
        changed_.wait_until(mutex_, std::min(deadline, comm::deadline_in(kTick)));
        --waiting_;
      } else {
        is_driven_ = true;
        may_drive = true;
      }
    }
    if (may_drive) {
      drive(std::min(deadline, comm::deadline_in(kTick)));
      const MutexLock lock(mutex_);
      is_driven_ = false;
      last_driven_ = comm::Clock::now();
      if (waiting_ > 0) {
        changed_.notify_all();
      }
    }
  }
}

std::shared_ptr<Operation> ClientCore::begin(const Request& request) {
  auto operation = std::make_shared<Operation>();
  operation->deadline = comm::deadline_in(options_.patience);
  operation->width = request.table.width;
  operation->into = request.into;
  const std::size_t floats = request.keys.count() * request.table.width;
  const std::span<const Key> listed = request.keys.listed();
  const MutexLock lock(mutex_);
  const TableSpec& spec = client_.table(static_cast<TableId>(request.table.id));
  operation->what =
      fmt::format("{} of {} keys of table '{}'", request.gradient.empty() ? "pull" : "push",
                  request.keys.count(), spec.name);
  const bool is_sorted = std::ranges::adjacent_find(listed, std::greater_equal<>()) == listed.end();
  const Key last = listed.empty() ? request.keys.end() : listed.empty() ? 0 : listed.back() + 1;
  require(is_sorted, operation->what + ": the keys are not in ascending order, each once");
  require(
      request.keys.count() > 0 && request.keys.begin() <= request.keys.end() && last <= spec.keys,
      fmt::format("{}: the table has keys 0 to {}", operation->what, spec.keys - 1));
  require((request.gradient.empty() || request.gradient.size() == floats) &&
              (request.into.empty() || request.into.size() == floats),
          fmt::format("{}: expected {} floats", operation->what, floats));
  const std::vector<Part> parts =
      client_.split(static_cast<TableId>(request.table.id), to_key_set(request.keys));
  operation->left = parts.size();
  for (const Part& part : parts) {
    begin_part(request, part, operation);
  }
  send_all();
  return operation;
}

void ClientCore::begin_part(const Request& request, const Part& part,
                            const std::shared_ptr<Operation>& operation) {
  const auto table = static_cast<TableId>(request.table.id);
  OpId id = 0;
  if (request.gradient.empty()) {
    id = client_.pull(table, part, micros(), out_);
  } else {
    const std::span<const float> gradient = request.gradient.subspan(
        part.first * request.table.width, part.keys.count() * request.table.width);
    id = client_.push(table, part, Values::pin(gradient),
                      request.into.empty() ? Reply::Acknowledge : Reply::Values, micros(), out_);
  }
  parts_.emplace(id, PendingPart{operation, part.first});
}

bool ClientCore::is_done(const Operation& operation) {
  return wait_until(comm::deadline_in({0}), [&](const Client&) { return operation.left == 0; });
}

void ClientCore::wait(const Operation& operation) {
  if (!wait_until(operation.deadline, [&](const Client&) { return operation.left == 0; })) {
    throw Error(ErrorKind::Peer, describe(operation.what));
  }
}

void ClientCore::abandon(Operation& operation) {
  const MutexLock lock(mutex_);
  if (operation.left > 0) {
    operation.is_abandoned = true;
    client_.detach();
    reactor_.detach();
  }
}

std::string ClientCore::describe(const std::string& what) {
  const MutexLock lock(mutex_);
  if (!client_.is_ready()) {
    return fmt::format(
        "{}: no answer from the coordinator at {} within {}: is it running, and with the "
        "same secret?",
        what, options_.coordinator, to_text(options_.patience));
  }
  return fmt::format("{}: no answer within {}: {} operations are waiting; see trireme ps status",
                     what, to_text(options_.patience), client_.pending());
}

}  // namespace trireme::ps
