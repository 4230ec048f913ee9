// Two ranks with a proxy between them, for tests of faulty networks.
#pragma once

#include <algorithm>
#include <array>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "comm/join/join.h"
#include "comm/proxy.h"
#include "comm/rendezvous/memory_store.h"
#include "comm/rendezvous_helpers.h"
#include "trireme/comm.h"

namespace trireme::comm {

using test::Meddling;
using test::Proxy;
using test::TrafficSpot;
using test::Way;

/// A store in which ranks find other addresses than the published ones: the last line of what a rank publishes is where
/// it accepts TCP connections.
class DetourStore final : public Store {
 public:
  using Detour = std::function<std::string(const std::string& address)>;
  DetourStore(Store& inner, Detour detour) : inner_(inner), detour_(std::move(detour)) {}

  void set(const std::string& key, std::string value) override {
    if (key.starts_with("world/rank/")) {
      const std::size_t last = value.rfind('\n') + 1;
      value = value.substr(0, last) + detour_(value.substr(last));
    }
    inner_.set(key, std::move(value));
  }
  std::string insert(const std::string& key, std::string value) override {
    return inner_.insert(key, std::move(value));
  }
  [[nodiscard]] std::string get(const std::string& key, Deadline deadline) override {
    return inner_.get(key, deadline);
  }
  std::int64_t add(const std::string& key, std::int64_t delta) override {
    return inner_.add(key, delta);
  }

 private:
  Store& inner_;
  Detour detour_;
};

/// A deadline for operations that must succeed, however slow the connection and the machine are.
inline constexpr Seconds kPatient{30.0};

/// How a rank's part ended.
struct Ending {
  std::string message{};  ///< of its error; "" if it succeeded
  std::optional<CommFault> fault{};
  std::vector<Rank> culprits{};
  double after = 0;  ///< seconds since it joined

  [[nodiscard]] bool well() const { return message.empty(); }
};

/// Two ranks, threads of this process, with a proxy between them: rank 0 connects to the proxy, the
/// proxy to rank 1. A rank whose body throws leaves.
class Pair {
 public:
  using Body = std::function<void(World&)>;
  explicit Pair(const Meddling& meddling, WorldOptions options = {.deadline = {0.5}})
      : meddling_(meddling), options_(std::move(options)) {
    options_.transport = TransportKind::Tcp;
  }

  std::array<Ending, 2> run(const Body& body) {
    DetourStore detour(store_, [&](const std::string& address) {
      proxy_ = std::make_unique<Proxy>(parse_address(address), meddling_);
      return to_text(proxy_->address());
    });
    std::array<Ending, 2> endings;
    std::thread one([&] { endings[1] = run_rank(1, detour, body); });
    endings[0] = run_rank(0, store_, body);
    one.join();
    return endings;
  }
  /// Whether the proxy's fault has happened.
  [[nodiscard]] bool has_struck() const { return proxy_ && proxy_->has_struck(); }
  /// Requires that a rank has joined.
  [[nodiscard]] Proxy& proxy() { return *proxy_; }

 private:
  Ending run_rank(Rank rank, Store& store, const Body& body) {
    Clock::time_point begin = Clock::now();
    Ending ending;
    try {
      World world(join({rank, 2, options_, store, nullptr, secret_}));
      begin = Clock::now();
      body(world);
    } catch (const CommError& error) {
      ending = {error.what(), error.fault(), error.culprits()};
    } catch (const std::exception& error) {
      ending.message = error.what();
    }
    ending.after = since(begin).count;
    return ending;
  }

  Meddling meddling_;
  WorldOptions options_;
  MemoryStore store_;
  Secret secret_ = Secret::random();
  std::unique_ptr<Proxy> proxy_;
};

/// What must never happen: a call that returns a wrong result.
class WrongResult : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

inline void allreduce_ones(World& world, std::size_t elements) {
  std::vector<std::int32_t> data(elements, 1);
  world.all().run(allreduce<std::int32_t>(
      std::span(data), {.method = Method::scheduled(Algorithm::Ring), .site = TRIREME_HERE}));
  if (!std::ranges::all_of(data, [&](std::int32_t x) { return x == world.size(); })) {
    throw WrongResult("WRONG RESULT");
  }
}

/// Long enough to need both connections: more than a socket's buffer.
inline constexpr std::size_t kLong = std::size_t{4} << 20;
/// Bytes of the handshake, and of the client's introduction.
inline constexpr std::size_t kHandshake = 90;
inline constexpr std::size_t kIntroduction = 8;

/// The k-th byte after those.
inline TrafficSpot data_spot(std::size_t connection, Way way, std::size_t byte) {
  return {connection, way, kHandshake + (way == Way::ToServer ? kIntroduction : 0) + byte};
}

/// A rank that hangs ends the test program instead of blocking it.
class Proxied : public testing::Test {
 protected:
  static constexpr unsigned kMaxSeconds = 60;
  void SetUp() override { alarm(kMaxSeconds); }
  void TearDown() override { alarm(0); }
};

}  // namespace trireme::comm
