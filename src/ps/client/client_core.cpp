#include "ps/client/client_core.h"

#include <algorithm>
#include <chrono>
#include <random>
#include <utility>

#include <fmt/format.h>

#include "base/enum_names.h"
#include "comm/net/secret.h"
#include "ps/host/event_loop.h"
#include "trireme/error.h"
#include "trireme/message.h"

namespace trireme::ps {
namespace {

std::uint64_t random_number() {
  std::random_device device;
  return (static_cast<std::uint64_t>(device()) << 32 | device()) & (kFirstWorker - 1);
}

/// Bytes of the floats in a message between a worker and a server.
std::uint64_t value_bytes(const Message& message) {
  return std::visit(
      []<class M>(const M& m) -> std::uint64_t {
        if constexpr (std::is_same_v<M, Push> || std::is_same_v<M, PushDone> ||
                      std::is_same_v<M, PullDone>) {
          return m.values.size() * sizeof(float);
        } else {
          return 0;
        }
      },
      message);
}

KeySet to_key_set(const Keys& keys) {
  return {keys.begin(), keys.end(), {keys.listed().begin(), keys.listed().end()}};
}

}  // namespace

std::vector<std::string> stuck_text(const std::vector<StuckShard>& stuck) {
  std::vector<std::string> lines;
  for (const StuckShard& shard : stuck) {
    std::string servers;
    for (const NodeId server : shard.servers) {
      servers += (servers.empty() ? "" : " or ") + to_text(server);
    }
    lines.push_back(fmt::format(
        "shard {} has no live replica: {}", static_cast<std::uint32_t>(shard.shard),
        shard.is_lost
            ? fmt::format("{} crashed and came back without its values; restore a snapshot with "
                          "--restore, or start a new cluster",
                          servers)
            : fmt::format("it waits for {}; resume it if it is paused or cut off", servers)));
  }
  return lines;
}

ClientCore::ClientCore(const ParameterClientOptions& options)
    : options_(options),
      self_(worker_node(random_number())),
      locator_(options.coordinator, options.etcd_tls),
      client_({.id = self_, .timing = timing_for(options.lease)}),
      reactor_({.self = self_,
                .secret = comm::Secret::from_text(options.secret),
                .encryption = options.encrypt == Encrypt::Yes ? comm::Encryption::Tls
                                                              : comm::Encryption::None,
                .encryption_advice = options.encryption_advice,
                .shares_memory = options.shares_memory},
               {.message = [this](NodeId from, Message& message) { take(from, message); },
                .connected =
                    [this](NodeId peer) {
                      mutex_.assume_held();
                      client_.reconnected(peer, micros(), out_);
                    },
                .rejected =
                    [this](NodeId peer, const std::string& why) {
                      mutex_.assume_held();
                      if (peer == NodeId::Coordinator) {
                        rejection_ = why;
                      }
                    },
                .place = [this](std::uint8_t kind, std::string_view fields,
                                std::size_t floats) { return place(kind, fields, floats); }}) {
  find_coordinator();
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

void ClientCore::find_coordinator() {
  if (const std::optional<std::string> address = locator_.take_change(located_)) {
    reactor_.redirect(NodeId::Coordinator, *address);
  }
}

Micros ClientCore::micros() {
  return micros_now();
}

/// From the reactor, whose caller holds the mutex.
void ClientCore::take(NodeId from, Message& message) {
  mutex_.assume_held();
  if (is_server(from)) {
    traffic_[from].received += value_bytes(message);
  }
  client_.handle(Envelope{from, self_, std::move(message)}, micros(), out_);
  complete();  // before the next message reuses the buffer
}

/// From the reactor, as take(): large answers are received straight into the caller's memory. Only one at a time: after a
/// failover two servers may answer the same request.
std::span<float> ClientCore::place(std::uint8_t kind, std::string_view fields, std::size_t floats) {
  mutex_.assume_held();
  if (!is_push_done(kind) && !is_pull_done(kind)) {
    return {};
  }
  const AnswerHead head = peek_answer(fields);
  const std::optional<OpId> op = is_push_done(kind) ? client_.find_push(head.shard, head.number)
                                                    : client_.find_pull(head.shard, head.number);
  const auto at = op ? parts_.find(*op) : parts_.end();
  if (at == parts_.end()) {
    return {};
  }
  PendingPart& part = at->second;
  const bool can_place =
      part.into.size() == floats && !part.is_receiving && !part.operation->is_abandoned;
  if (!can_place) {
    return {};
  }
  part.is_receiving = true;
  return part.into;
}

void ClientCore::complete() {
  for (const Completion& completion : client_.take_completions()) {
    const auto at = parts_.find(completion.op);
    if (at == parts_.end()) {
      continue;
    }
    const PendingPart& part = at->second;
    const std::span<const float> values = completion.values.view();
    const bool is_in_place = values.data() == part.into.data();
    if (!part.into.empty() && !part.operation->is_abandoned && !is_in_place) {
      std::ranges::copy(values.first(std::min(values.size(), part.into.size())), part.into.begin());
      if (part.is_receiving) {
        reactor_.release(part.into);  // another answer, that is no longer needed
      }
    }
    --part.operation->left;
    part.operation->end = comm::Clock::now();
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
    if (is_server(envelope.to)) {
      traffic_[envelope.to].sent += value_bytes(envelope.message);
    }
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
      find_coordinator();
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

std::string ClientCore::text_of(const Operation& operation) const {
  return fmt::format("{} of {} keys of table '{}'", operation.is_push ? "push" : "pull",
                     operation.keys, client_.table(operation.table).name);
}

void ClientCore::require_valid(const Request& request, const Operation& operation) const {
  const std::span<const Key> listed = request.keys.listed();
  const Key keys = client_.table(operation.table).keys;
  const std::size_t floats = request.keys.count() * request.table.width;
  const Key last = listed.empty() ? request.keys.end() : listed.back() + 1;
  const bool is_sorted = std::ranges::adjacent_find(listed, std::greater_equal<>()) == listed.end();
  const bool is_in_table =
      operation.keys > 0 && request.keys.begin() <= request.keys.end() && last <= keys;
  const bool fits = (request.gradient.empty() || request.gradient.size() == floats) &&
                    (request.into.empty() || request.into.size() == floats);
  if (!is_sorted) {
    throw Error(ErrorKind::Usage,
                text_of(operation) + ": the keys are not in ascending order, each once");
  }
  if (!is_in_table) {
    throw Error(ErrorKind::Usage,
                fmt::format("{}: the table has keys 0 to {}", text_of(operation), keys - 1));
  }
  if (!fits) {
    throw Error(ErrorKind::Usage,
                fmt::format("{}: expected {} floats", text_of(operation), floats));
  }
}

std::shared_ptr<Operation> ClientCore::begin(const Request& request) {
  auto operation = std::make_shared<Operation>();
  operation->is_push = !request.gradient.empty();
  operation->table = static_cast<TableId>(request.table.id);
  operation->keys = request.keys.count();
  operation->begin = comm::Clock::now();
  operation->deadline = comm::deadline_in(options_.patience);
  const MutexLock lock(mutex_);
  require_valid(request, *operation);
  const std::vector<Part> parts = client_.split(operation->table, to_key_set(request.keys));
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
  const std::span<float> into = request.into.empty()
                                    ? std::span<float>()
                                    : request.into.subspan(part.first * request.table.width,
                                                           part.keys.count() * request.table.width);
  parts_.emplace(id, PendingPart{operation, into});
}

bool ClientCore::is_done(const Operation& operation) {
  return wait_until(comm::deadline_in({0}), [&](const Client&) { return operation.left == 0; });
}

void ClientCore::wait(const Operation& operation) {
  if (!wait_until(operation.deadline, [&](const Client&) { return operation.left == 0; })) {
    std::string what;
    {
      const MutexLock lock(mutex_);
      what = text_of(operation);
    }
    throw Error(ErrorKind::Peer, describe(what));
  }
}

Seconds ClientCore::took(const Operation& operation) {
  const MutexLock lock(mutex_);
  return {std::chrono::duration<double>(operation.end - operation.begin).count()};
}

void ClientCore::abandon(Operation& operation) {
  const MutexLock lock(mutex_);
  if (operation.left > 0) {
    operation.is_abandoned = true;
    client_.detach();
    reactor_.detach();
  }
}

std::map<std::uint64_t, ServerTraffic> ClientCore::traffic() {
  const MutexLock lock(mutex_);
  std::map<std::uint64_t, ServerTraffic> by_number;
  for (const auto& [server, traffic] : traffic_) {
    ServerTraffic& sum = by_number[server_number(server)];
    sum.sent += traffic.sent;
    sum.received += traffic.received;
  }
  return by_number;
}

void ClientCore::join() {
  std::string rejection;
  const bool is_ready = wait_until(comm::deadline_in(options_.patience), [&](const Client& client) {
    mutex_.assume_held();
    rejection = rejection_;
    return client.is_ready() || !rejection.empty();
  });
  if (!rejection.empty()) {
    throw Error(ErrorKind::Peer, "cannot join the parameter servers: " + rejection);
  }
  if (!is_ready) {
    throw Error(ErrorKind::Peer, describe("cannot join the parameter servers"));
  }
}

std::string ClientCore::describe(const std::string& what) {
  const MutexLock lock(mutex_);
  if (!client_.is_ready() && client_.has_state()) {
    return fmt::format(
        "{}: the coordinator at {} has not assigned the shards within {}: it waits for more "
        "servers "
        "than the {} that have joined; start them, or give it a smaller --min-servers",
        what, options_.coordinator, to_text(options_.patience), client_.addresses().size());
  }
  if (!client_.is_ready()) {
    const std::string problem = locator_.problem();
    return fmt::format("{}: no answer from the coordinator at {} within {}: {}", what,
                       options_.coordinator, to_text(options_.patience),
                       problem.empty() ? "is it running, and with the same secret?" : problem);
  }
  const std::vector<std::string> stuck = stuck_text(client_.stuck());
  return fmt::format("{}: no answer within {}: {} operations are waiting; {}", what,
                     to_text(options_.patience), client_.pending(),
                     stuck.empty() ? "see trireme ps status" : stuck.front());
}

std::string_view to_text(Encrypt encrypt) {
  static constexpr auto kNames = enum_names<Encrypt>("no", "yes");
  return kNames[encrypt];
}

}  // namespace trireme::ps
