#include "ps/host/coordinator_candidate.h"

#include <utility>

#include "comm/net/deadline.h"
#include "ps/membership/leadership.h"
#include "trireme/error.h"

namespace trireme::ps {

CoordinatorCandidate::CoordinatorCandidate(ParameterCoordinatorOptions options)
    : options_(std::move(options)),
      location_(parse_etcd_location(options_.membership, options_.etcd_tls)) {
  (void)make_life();  // whether it can listen should show now, not at an election
  thread_ = std::thread([this] { run(); });
}

CoordinatorCandidate::~CoordinatorCandidate() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

std::unique_ptr<CoordinatorLife> CoordinatorCandidate::make_life() {
  return std::make_unique<CoordinatorLife>(options_, [this](const std::string& why) {
    const MutexLock lock(mutex_);
    why_ended_ = why;
    changed_.notify_all();
  });
}

void CoordinatorCandidate::run() noexcept {
  try {
    while (!stopping_) {
      stand_and_serve();
    }
  } catch (const std::exception& error) {
    life_.reset();
    if (options_.on_stopped) {
      options_.on_stopped(error.what());
    }
  }
}

/// A standby does not listen: whoever still believes that it leads would wait for an answer. It begins just before the
/// election, in which its address is recorded.
void CoordinatorCandidate::stand_and_serve() {
  report(CoordinatorRole::Standby, options_.listen);
  const std::unique_ptr<Leadership> leadership =
      run_for_leader({.location = location_,
                      .listen =
                          [this] {
                            life_.reset();  // of a lost election
                            life_ = make_life();
                            return life_->address();
                          },
                      .stopping = &stopping_,
                      .problem = [this](const std::string& what) { log(what); }});
  if (!leadership) {
    return;
  }
  const std::string why = serve(*leadership);
  life_.reset();  // before it gives the leadership up
  if (!why.empty() && leadership->is_held()) {
    throw Error(ErrorKind::System, why);
  }
  if (!stopping_) {
    log(why);
  }
}

/// Why it ended; empty if the candidate is to stop.
std::string CoordinatorCandidate::serve(Leadership& leadership) {
  try {
    life_->start(leadership);
  } catch (const Error& error) {
    return error.what();
  }
  report(CoordinatorRole::Active, life_->address());
  const MutexLock lock(mutex_);
  while (!stopping_ && why_ended_.empty()) {
    changed_.wait_until(mutex_, comm::deadline_in({60}));
  }
  return std::exchange(why_ended_, {});
}

std::string_view to_text(CoordinatorRole role) {
  return role == CoordinatorRole::Active ? "coordinator" : "standby";
}

void CoordinatorCandidate::report(CoordinatorRole role, const std::string& address) const {
  if (options_.on_role) {
    options_.on_role(role, address);
  }
}

void CoordinatorCandidate::log(const std::string& what) const {
  if (options_.on_refused) {
    options_.on_refused(what);
  }
}

}  // namespace trireme::ps
