// ClientCore: a client's state machine and its connections. A thread that waits for an operation drives the connections
// itself, so that an answer needs no switch of threads; a background thread sends heartbeats and drives them while nobody
// waits. Any thread.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "ps/membership/coordinator_locator.h"
#include "ps/net/reactor.h"
#include "ps/protocol/client.h"
#include "trireme/parameter_server.h"

namespace trireme::ps {

/// A push or pull of the public API: parts on one or more shards.
struct Operation {
  bool is_push = false;
  TableId table{};
  std::size_t keys = 0;
  comm::Clock::time_point begin{};
  comm::Clock::time_point end{};  ///< of the last part's answer
  comm::Deadline deadline{};
  std::size_t left = 0;  ///< parts
  bool is_abandoned = false;
};

/// A line for each: whom it waits for, and what to do.
[[nodiscard]] std::vector<std::string> stuck_text(const std::vector<StuckShard>& stuck);

class ClientCore {
 public:
  explicit ClientCore(const ParameterClientOptions& options);
  ~ClientCore();
  ClientCore(const ClientCore&) = delete;
  ClientCore& operator=(const ClientCore&) = delete;

  /// Runs `call(client, now, out)` with the state machine, and sends what it returns.
  template <class Call>
  auto with_client(const Call& call) {
    const MutexLock lock(mutex_);
    if constexpr (std::is_void_v<decltype(call(client_, Micros{}, out_))>) {
      call(client_, micros(), out_);
      send_all();
    } else {
      auto result = call(client_, micros(), out_);
      send_all();
      return result;
    }
  }
  /// Waits until `done(client)` or the deadline; whether it is done.
  [[nodiscard]] bool wait_until(comm::Deadline deadline,
                                const std::function<bool(const Client&)>& done);

  struct Request {
    TableHandle table;
    Keys keys;
    std::span<const float> gradient;  ///< of a push
    std::span<float> into;            ///< of a pull
  };
  [[nodiscard]] std::shared_ptr<Operation> begin(const Request& request);
  [[nodiscard]] bool is_done(const Operation& operation);
  void wait(const Operation& operation);
  [[nodiscard]] Seconds took(const Operation& operation);
  /// The caller's buffers may go away.
  void abandon(Operation& operation);
  [[nodiscard]] const ParameterClientOptions& options() const { return options_; }
  [[nodiscard]] static Micros micros();
  [[nodiscard]] std::map<std::uint64_t, ServerTraffic> traffic();
  /// Why an operation has not finished, for a message.
  [[nodiscard]] std::string describe(const std::string& what);
  /// Waits until the cluster is ready. Throws Error(Peer) at the deadline, or at once if the coordinator is another's.
  void join();

 private:
  struct PendingPart {
    std::shared_ptr<Operation> operation;
    std::span<float> into{};
    bool is_receiving = false;  ///< an answer is, or was, received straight into it
  };
  /// "push of 3 keys of table 'w'".
  [[nodiscard]] std::string text_of(const Operation& operation) const TRIREME_REQUIRES(mutex_);
  void require_valid(const Request& request, const Operation& operation) const
      TRIREME_REQUIRES(mutex_);
  void begin_part(const Request& request, const Part& part,
                  const std::shared_ptr<Operation>& operation) TRIREME_REQUIRES(mutex_);
  void take(NodeId from, Message& message);
  void send_all() TRIREME_REQUIRES(mutex_);
  void complete() TRIREME_REQUIRES(mutex_);
  [[nodiscard]] std::span<float> place(std::uint8_t kind, std::string_view fields,
                                       std::size_t floats);
  void drive(comm::Deadline deadline);
  void find_coordinator() TRIREME_REQUIRES(mutex_);
  void run_background();

  ParameterClientOptions options_;
  NodeId self_;
  CoordinatorLocator locator_;
  Mutex mutex_;
  std::uint64_t located_ TRIREME_GUARDED_BY(mutex_) = 0;  ///< changes of the coordinator's address
  CondVar changed_;
  Client client_ TRIREME_GUARDED_BY(mutex_);
  Reactor reactor_;  ///< guarded by mutex_, except wait() and wake()
  Outbox out_ TRIREME_GUARDED_BY(mutex_);
  std::map<OpId, PendingPart> parts_ TRIREME_GUARDED_BY(mutex_);
  std::map<NodeId, std::string> known_ TRIREME_GUARDED_BY(mutex_);
  std::string rejection_ TRIREME_GUARDED_BY(mutex_);  ///< by the coordinator, in the handshake
  std::map<NodeId, ServerTraffic> traffic_ TRIREME_GUARDED_BY(mutex_);
  bool is_driven_ TRIREME_GUARDED_BY(mutex_) = false;
  int waiting_ TRIREME_GUARDED_BY(mutex_) = 0;  ///< threads that another one drives for
  comm::Clock::time_point last_driven_ TRIREME_GUARDED_BY(mutex_){};  ///< by a thread that waits
  std::atomic<bool> stopping_ = false;
  std::thread background_;
};

}  // namespace trireme::ps
