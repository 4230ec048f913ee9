// The public Group and Pending.
#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "comm/direct/direct.h"
#include "comm/group/group_core.h"
#include "comm/op/message_op.h"
#include "comm/scheduled/make_op.h"
#include "trireme/comm.h"

namespace trireme {

using comm::GroupCore;
using comm::Job;

// Pending.

Pending::Pending(std::shared_ptr<Job> job) : job_(std::move(job)) {}

Pending::~Pending() {
  while (job_ && !job_->wait(std::chrono::seconds(1))) {
  }
}

Pending::Pending(Pending&&) noexcept = default;

Pending& Pending::operator=(Pending&& other) noexcept {
  std::swap(job_, other.job_);
  return *this;
}

bool Pending::done() const {
  return !job_ || job_->done.load(std::memory_order_acquire);
}

void Pending::wait() {
  while (!wait(Seconds{1})) {
  }
}

bool Pending::wait(Seconds at_most) {
  if (!job_) {
    return true;
  }
  constexpr double kLongest = 1e9;  // a few decades
  const double seconds = std::clamp(at_most.count, 0.0, kLongest);
  if (!job_->wait(std::chrono::nanoseconds(static_cast<std::int64_t>(seconds * 1e9)))) {
    return false;
  }
  const std::shared_ptr<Job> job = std::move(job_);
  job_.reset();
  if (job->error) {
    std::rethrow_exception(job->error);
  }
  return true;
}

// Calls.

namespace {

/// Checks the call. If it is invalid, notifies the other ranks before the error propagates.
const comm::Prepared& prepare(GroupCore& group, const Call& call) {
  group.failures().require_alive();
  try {
    return group.calls().prepare(call);
  } catch (const Error& error) {
    group.failures().abandon(call, error.what());
    throw;
  }
}

/// Runs a part of a call. An exception that is not a CommError originates on this rank, for example in its reduction:
/// notifies the other ranks that this one failed, then rethrows.
template <class Body>
auto or_abandon(GroupCore& group, const Call& call, Body body) {
  try {
    return body();
  } catch (const CommError&) {
    throw;
  } catch (const std::exception& error) {
    group.failures().abandon(call, error.what());
    throw;
  } catch (...) {
    group.failures().abandon(call, "an exception without a message");
    throw;
  }
}

/// A call in flight, with everything it refers to.
class CallOp : public comm::Op {
 public:
  /// Throws Error(Usage) if the call is invalid. `group` must live until it is done.
  CallOp(GroupCore& group, const Call& call) : group_(group), prepared_(prepare(group, call)) {
    group.mismatches().remember(prepared_.record);
    op_ = comm::make_op(group.scheduled_context(), prepared_.call, prepared_.geometry,
                        prepared_.record);
  }
  [[nodiscard]] comm::Progress advance() override {
    if (!begun_) {
      group_.failures().require_alive();  // an earlier call may have failed the group
      begun_ = true;
    }
    return or_abandon(group_, prepared_.call, [this] { return op_->advance(); });
  }
  void check(Seconds stuck) override { op_->check(stuck); }
  void expire(Seconds stuck) override { op_->expire(stuck); }

 private:
  GroupCore& group_;
  comm::Prepared prepared_;
  bool begun_ = false;
  std::unique_ptr<comm::Op> op_;
};

}  // namespace

Group::Group(std::shared_ptr<GroupCore> core) : core_(std::move(core)) {}

Rank Group::rank() const {
  return core_->members().rank();
}
Rank Group::size() const {
  return core_->members().size();
}
const std::vector<Rank>& Group::world_ranks() const {
  return core_->members().world_ranks();
}

void Group::run(const Call& call) {
  comm::Engine& engine = core_->world().engine();
  if (engine.is_busy(core_.get())) {
    start(call).wait();
    return;
  }
  const comm::Prepared& prepared = prepare(*core_, call);
  if (prepared.method.kind == Method::Kind::Direct) {
    comm::DirectOp op(core_->direct_context(), call, prepared.geometry, prepared.record);
    or_abandon(*core_, call, [&] { engine.run(op); });
    return;
  }
  core_->mismatches().remember(prepared.record);
  const std::unique_ptr<comm::Op> op =
      comm::make_op(core_->scheduled_context(), call, prepared.geometry, prepared.record);
  or_abandon(*core_, call, [&] { engine.run(*op); });
}

Pending Group::start(const Call& call) {
  auto job = std::make_shared<Job>();
  job->op = std::make_unique<CallOp>(*core_, call);
  job->line = core_.get();
  job->keeps = core_;
  core_->world().engine().submit(job);
  return Pending(std::move(job));
}

void Group::barrier() {
  run(Call{});
}

std::string Group::method_of(const Call& call) const {
  const comm::Geometry geometry =
      comm::make_geometry(call, core_->members().rank(), core_->members().size());
  return std::string(to_text(core_->choice().choose(call, geometry)));
}

// Messages.

namespace {

void check_peer(const comm::Membership& group, Rank peer, const char* what) {
  if (peer < 0 || peer >= group.size() || peer == group.rank()) {
    throw Error(ErrorKind::Usage,
                fmt::format("{} rank {}: in a group of {} rank {} can reach the others, 0 to {}",
                            what, peer, group.size(), group.rank(), group.size() - 1));
  }
}

}  // namespace

Pending Group::start_send(std::span<const std::byte> data, DType dtype, Rank to, std::int32_t tag) {
  core_->failures().require_alive();
  check_peer(core_->members(), to, "send to");
  auto job = std::make_shared<Job>();
  job->op = std::make_unique<comm::SendOp>(core_->op_context(), data, dtype, to, tag,
                                           comm::SendOp::Patience::Patient);
  job->keeps = core_;
  core_->world().engine().submit(job);
  return Pending(std::move(job));
}

Pending Group::start_receive(std::span<std::byte> data, DType dtype, Rank from, std::int32_t tag) {
  core_->failures().require_alive();
  check_peer(core_->members(), from, "receive from");
  auto job = std::make_shared<Job>();
  job->op = std::make_unique<comm::ReceiveOp>(core_->op_context(), data, dtype, from, tag);
  job->keeps = core_;
  core_->world().engine().submit(job);
  return Pending(std::move(job));
}

void Group::send_bytes(std::span<const std::byte> data, DType dtype, Rank to, std::int32_t tag) {
  core_->failures().require_alive();
  check_peer(core_->members(), to, "send to");
  comm::SendOp op(core_->op_context(), data, dtype, to, tag, comm::SendOp::Patience::Impatient);
  core_->world().engine().run(op);
}

void Group::receive_bytes(std::span<std::byte> data, DType dtype, Rank from, std::int32_t tag) {
  core_->failures().require_alive();
  check_peer(core_->members(), from, "receive from");
  comm::ReceiveOp op(core_->op_context(), data, dtype, from, tag);
  core_->world().engine().run(op);
}

}  // namespace trireme
