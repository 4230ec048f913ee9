// What a benchmark of parameter servers compares: things that do an operation at a time, several of them in flight. One
// thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "comm/net/socket.h"
#include "ps/net/shared_stream.h"
#include "ps/protocol/values.h"
#include "ps/tools/child_process.h"
#include "trireme/parameter_server.h"
#include "trireme/units.h"

namespace trireme::ps {

inline constexpr Seconds kBenchPatience{30};  ///< with the other side of a connection

class Contender {
 public:
  Contender() = default;
  virtual ~Contender() = default;
  Contender(const Contender&) = delete;
  Contender& operator=(const Contender&) = delete;

  /// Starts operations until `depth` are in flight, then waits until the oldest is done.
  virtual void step(std::size_t depth) = 0;
  /// Waits for one in flight; false if there is none.
  virtual bool drain_one() = 0;
};

/// Requests over TCP whose answers have known sizes, round robin.
class StreamContender : public Contender {
 public:
  struct Exchange {
    std::string request;
    std::size_t answer_bytes = 0;
  };
  /// The answers arrive on the same connection, or on one of their own.
  StreamContender(comm::Fd socket, std::vector<Exchange> exchanges, comm::Fd answers = {});
  void step(std::size_t depth) override;
  bool drain_one() override;
  [[nodiscard]] std::span<const std::byte> last_answer() const { return answer_; }

 private:
  [[nodiscard]] bool send_more();
  [[nodiscard]] bool receive_more();

  [[nodiscard]] const comm::Fd& answers() const { return answers_.valid() ? answers_ : socket_; }

  comm::Fd socket_;
  comm::Fd answers_;  ///< invalid: they arrive on socket_
  std::vector<Exchange> exchanges_;
  std::vector<std::byte> answer_;
  std::size_t begun_ = 0;  ///< exchanges that may be sent
  std::size_t sent_ = 0;
  std::size_t done_ = 0;
  std::size_t sent_bytes_ = 0;  ///< of the next one
  std::size_t received_bytes_ = 0;
};

/// A bare loop over TCP: a thread receives vectors and answers each.
class EchoServer {
 public:
  enum class Answer : std::uint8_t {
    Sum,   ///< it adds the vector to an array and returns that: the floor of push_pull
    Same,  ///< it returns the vector
    Byte,  ///< one byte: what a stream in one direction carries
  };
  EchoServer(std::size_t floats, Answer answer);
  ~EchoServer();
  EchoServer(const EchoServer&) = delete;
  EchoServer& operator=(const EchoServer&) = delete;
  [[nodiscard]] std::unique_ptr<StreamContender> connect() const;

 private:
  void run() const;
  void answer_all(const comm::Fd& socket) const;

  comm::Listener listener_;
  std::size_t floats_;
  Answer answer_;
  std::thread thread_;
};

/// The floor of a chain of two: a thread receives vectors, adds them to an array and passes them on; a second one adds them
/// to its own array, which it returns to the client.
class RelayEcho : public Contender {
 public:
  explicit RelayEcho(std::size_t floats);
  ~RelayEcho() override;
  RelayEcho(const RelayEcho&) = delete;
  RelayEcho& operator=(const RelayEcho&) = delete;
  void step(std::size_t depth) override { client_->step(depth); }
  bool drain_one() override { return client_->drain_one(); }

 private:
  /// Until its predecessor closes.
  void run(const comm::Fd& from, const comm::Fd& to, bool is_last) const;

  std::size_t floats_;
  std::unique_ptr<StreamContender> client_;
  std::array<std::thread, 2> threads_;
};

/// The floor of shared memory: as EchoServer, through a SharedStream.
class RingEcho : public Contender {
 public:
  explicit RingEcho(std::size_t floats);
  ~RingEcho() override;
  RingEcho(const RingEcho&) = delete;
  RingEcho& operator=(const RingEcho&) = delete;
  void step(std::size_t depth) override;
  bool drain_one() override;

 private:
  void run() const;
  [[nodiscard]] bool send_more();
  [[nodiscard]] bool receive_more();

  std::size_t floats_;
  std::array<comm::Fd, 2> sockets_;  ///< of the client, of the server
  std::unique_ptr<SharedStream> server_;
  std::unique_ptr<SharedStream> client_;
  std::vector<float> gradient_;
  std::vector<float> answer_;
  std::size_t begun_ = 0;
  std::size_t sent_ = 0;
  std::size_t done_ = 0;
  std::size_t sent_bytes_ = 0;  ///< of the next one
  std::size_t received_bytes_ = 0;
  std::thread thread_;
};

/// A Redis server of this benchmark's own.
class RedisServer {
 public:
  enum class Command : std::uint8_t { Set, Get };
  explicit RedisServer(const std::string& program);
  /// The commands in turn, of a value of this size, which has been set.
  [[nodiscard]] std::unique_ptr<StreamContender> connect(
      std::size_t bytes, const std::vector<Command>& commands) const;

 private:
  comm::Address address_;
  std::unique_ptr<ChildProcess> process_;
};

/// Operations on one vector of the parameter server.
class ParameterContender : public Contender {
 public:
  enum class Operation : std::uint8_t { PushPull, Push, Pull };
  /// `client` must outlive it. Checks that values add up.
  ParameterContender(ParameterClient& client, std::size_t floats, Operation operation);
  void step(std::size_t depth) override;
  bool drain_one() override;

 private:
  void check();
  [[nodiscard]] PendingOperation begin();

  ParameterClient& client_;
  Operation operation_;
  TableHandle table_;
  std::vector<float> gradient_;
  std::vector<std::vector<float>> values_;
  std::deque<PendingOperation> pending_;
  std::size_t next_ = 0;
};

}  // namespace trireme::ps
