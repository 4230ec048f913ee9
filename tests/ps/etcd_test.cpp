// The client of etcd and the leadership in it, with a real etcd.
#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "comm/proxy.h"
#include "expect_error.h"
#include "ps/etcd_processes.h"
#include "ps/membership/base64.h"
#include "ps/membership/coordinator_locator.h"
#include "ps/membership/leadership.h"
#include "ps/test_certificates.h"

namespace trireme::ps {
namespace {

using Of = EtcdPut::Condition::Of;

TEST(Base64, EncodesAndDecodesEveryLength) {
  EXPECT_EQ(to_base64("bar"), "YmFy");
  EXPECT_EQ(to_base64("ba"), "YmE=");
  EXPECT_EQ(to_base64("b"), "Yg==");
  EXPECT_EQ(to_base64(std::string("\xff\x00\xfe", 3)), "/wD+");
  std::string bytes;
  for (int i = 0; i < 300; ++i) {
    EXPECT_EQ(from_base64(to_base64(bytes)), bytes);
    bytes += static_cast<char>(i * 37);
  }
  for (const char* wrong : {"YmF", "Ym F", "Y===", "====", "YmFy!"}) {
    EXPECT_THROW((void)from_base64(wrong), Error) << wrong;
  }
}

TEST(EtcdLocation, ParsesMembersAndName) {
  const EtcdLocation location = parse_etcd_location("etcd://10.0.0.1:2379,node2:2380/jobs-1");
  ASSERT_EQ(location.members.size(), 2U);
  EXPECT_EQ(comm::to_text(location.members[1]), "node2:2380");
  EXPECT_EQ(location.cluster, "jobs-1");
  EXPECT_EQ(parse_etcd_location("etcd://node1:2379").cluster, "default");
  EXPECT_FALSE(location.tls);
  EXPECT_TRUE(parse_etcd_location("etcd+tls://node1:2379/a").tls);
  for (const char* wrong :
       {"http://node1:2379", "etcd+tls://", "etcd://", "etcd://node1", "etcd://node1:2379/",
        "etcd://a:1,/x", "etcd://node1:2379/a/b", "etcd://node1:2379/a b"}) {
    EXPECT_THROW((void)parse_etcd_location(wrong), Error) << wrong;
  }
}

TEST(EtcdLocation, NamesUnusableFile) {
  const TemporaryFolder folder;
  const std::string text = folder.file("note.txt", "not a certificate");
  const auto expect_refused = [](std::string_view location, const TlsFiles& files,
                                 std::string_view words) {
    expect_error(ErrorKind::Usage, words, [&] { (void)parse_etcd_location(location, files); });
  };
  expect_refused("etcd+tls://a:1", {.ca = "/no/such/ca.pem"},
                 "CA certificate '/no/such/ca.pem': no such file");
  expect_refused("etcd+tls://a:1", {.ca = text}, text);
  expect_refused("etcd+tls://a:1", {.certificate = text}, "give both or neither");
  expect_refused("etcd+tls://a:1", {.certificate = text, .key = text}, "expected a PEM file");
  expect_refused("etcd://a:1", {.ca = text}, "are for etcd+tls://");
  expect_error(ErrorKind::Usage, "are for etcd+tls://",
               [&] { const CoordinatorLocator locator("10.0.0.1:7000", {.ca = text}); });
}

TEST(Etcd, NamesEveryUnresponsiveMember) {
  const comm::Address nobody = comm::listen_on().address;  // closed again
  const comm::Listener silent = comm::listen_on();
  for (const comm::Address& address : {nobody, silent.address}) {
    expect_error(ErrorKind::Peer, fmt::format("etcd at {}: ", comm::to_text(address)), [&] {
      (void)Etcd({.members = {nobody, silent.address}}).get("key", comm::deadline_in({1}));
    });
  }
}

/// Answers every connection with these bytes.
class Answering {
 public:
  explicit Answering(std::string bytes)
      : listener_(comm::listen_on()), thread_([this, bytes = std::move(bytes)] {
          while (!stopping_) {
            if (!comm::wait_for(listener_.socket, comm::Ready::Read, comm::deadline_in({0.05}))) {
              continue;
            }
            comm::Fd socket = comm::accept_one(listener_.socket, comm::deadline_in({5}));
            comm::send_all(socket, std::as_bytes(std::span(bytes)), comm::deadline_in({5}));
            std::array<std::byte, 4096> request{};
            (void)comm::wait_for(socket, comm::Ready::Read, comm::deadline_in({5}));
            (void)comm::receive_some(socket, request);
            comm::close_politely(socket);
          }
        }) {}
  ~Answering() {
    stopping_ = true;
    thread_.join();
  }
  Answering(const Answering&) = delete;
  Answering& operator=(const Answering&) = delete;
  [[nodiscard]] const comm::Address& address() const { return listener_.address; }

 private:
  comm::Listener listener_;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

TEST(Etcd, ReportsForeignAnswers) {
  const std::string head = "HTTP/1.0 200 OK\r\n\r\n";
  for (const std::string& answer :
       {std::string("SSH-2.0-OpenSSH\r\n"), std::string(), std::string("HTTP/1.0 \r\n\r\n"),
        head + "{\"header\":", head + "[1,2]", head + "{\"header\":{\"member_id\":7}}",
        head + "{\"header\":{\"member_id\":\"7\",\"raft_term\":\"x\"}}",
        std::string("HTTP/1.0 500 Oops\r\n\r\n")}) {
    const Answering server(answer);
    expect_error(ErrorKind::Peer, "etcd at " + comm::to_text(server.address()), [&] {
      (void)Etcd({.members = {server.address()}}).get("key", comm::deadline_in({0.5}));
    });
  }
}

/// Tests with a real etcd of one member.
class RealEtcd : public testing::Test {
 protected:
  void SetUp() override {
    if (!why_no_etcd().empty()) {
      GTEST_SKIP() << why_no_etcd();
    }
    processes_.emplace(1);
    processes_->wait_until_ready();
  }
  [[nodiscard]] EtcdLocation location() const { return processes_->location(); }
  [[nodiscard]] Etcd etcd() const { return Etcd(location()); }
  [[nodiscard]] std::unique_ptr<Leadership> elect(const std::string& address) {
    return run_for_leader(
        {.location = location(), .listen = [&] { return address; }, .stopping = &never_});
  }
  static comm::Deadline soon() { return comm::deadline_in(kSoon); }

  std::atomic<bool> never_ = false;
  std::optional<EtcdProcesses> processes_;
};

TEST_F(RealEtcd, PutsOnlyIfConditionsHold) {
  Etcd etcd = this->etcd();
  EXPECT_FALSE(etcd.get("a", soon()).found);
  const std::string bytes("\0\xff value", 8);
  const EtcdPutResult first =
      etcd.put({.conditions = {{.key = "a"}}, .key = "a", .value = bytes}, soon());
  ASSERT_TRUE(first.is_done);
  const EtcdRead read = etcd.get("a", soon());
  ASSERT_TRUE(read.found);
  EXPECT_EQ(read.found->value, bytes);
  EXPECT_EQ(read.found->created, first.revision);
  EXPECT_FALSE(read.header.member.empty());
  EXPECT_GT(read.header.term, 0);

  const EtcdPut second{.conditions = {{.key = "a", .of = Of::Modified, .is = first.revision}},
                       .key = "a",
                       .value = "b"};
  EXPECT_TRUE(etcd.put(second, soon()).is_done);
  const EtcdPutResult repeated = etcd.put(second, soon());
  EXPECT_FALSE(repeated.is_done);
  ASSERT_TRUE(repeated.found);
  EXPECT_EQ(repeated.found->value, "b");
}

TEST_F(RealEtcd, RejectsWithReason) {
  expect_error(ErrorKind::System, "too large", [&] {  // its limit is 1.5 MiB
    (void)etcd().put({.key = "a", .value = std::string(1'700'000, 'x')}, soon());
  });
}

TEST_F(RealEtcd, HasOneLeaderWhoseSuccessorInheritsItsState) {
  std::unique_ptr<Leadership> first = elect("10.0.0.1:7000");
  EXPECT_EQ(first->load(), "");
  first->store("one");
  first->store("two");
  EXPECT_TRUE(first->is_held());

  std::atomic<bool> is_elected = false;
  std::unique_ptr<Leadership> second;
  std::thread candidate([&] {
    second = elect("10.0.0.2:7000");
    is_elected = true;
  });
  // Longer than the lease: only its renewals keep the second from being elected.
  std::this_thread::sleep_for(comm::duration({1.5 * Leadership::kTtl.count}));
  EXPECT_FALSE(is_elected && first->is_held());
  first.reset();
  candidate.join();
  EXPECT_EQ(second->load(), "two");
}

TEST_F(RealEtcd, ReplacedLeaderCannotWrite) {
  const std::unique_ptr<Leadership> first = elect("10.0.0.1:7000");
  (void)first->load();
  first->store("one");
  // As if the lease had ended; the first one does not know it yet.
  const std::string key = leader_key(location());
  const EtcdRead leader = etcd().get(key, soon());
  ASSERT_TRUE(leader.found);
  (void)http_post(
      {location().members[0], "/v3/kv/deleterange", Json{{"key", to_base64(key)}}.dump()}, soon());
  const std::unique_ptr<Leadership> second = elect("10.0.0.2:7000");
  EXPECT_THROW(first->store("by the first"), Error);
  EXPECT_FALSE(first->is_held());
  EXPECT_THROW(first->require_valid(), Error);
  EXPECT_EQ(second->load(), "one");
}

TEST_F(RealEtcd, ForeignWriteToStateEndsLeadership) {
  const std::unique_ptr<Leadership> leader = elect("10.0.0.1:7000");
  (void)leader->load();
  leader->store("one");
  ASSERT_TRUE(etcd().put({.key = "/trireme/ps/test/state", .value = "foreign"}, soon()).is_done);
  EXPECT_THROW(leader->store("two"), Error);
  EXPECT_FALSE(leader->is_held());
}

TEST_F(RealEtcd, IsElectedOnceIfAnswerIsLost) {
  // Connections: read the leader, grant a lease, put. The answer to the put is not delivered.
  test::Proxy proxy(
      location().members[0],
      {.close = test::TrafficSpot{.connection = 2, .way = test::Way::ToClient, .byte = 0}});
  EtcdLocation through{.members = {proxy.address()}, .cluster = "test"};
  const std::unique_ptr<Leadership> leader =
      run_for_leader({.location = through,
                      .listen = [] { return std::string("10.0.0.1:7000"); },
                      .stopping = &never_});
  EXPECT_TRUE(proxy.has_struck());
  (void)leader->load();
  leader->store("one");
  const EtcdRead read = etcd().get(leader_key(location()), soon());
  ASSERT_TRUE(read.found);
  EXPECT_EQ(leader_address(read.found->value), "10.0.0.1:7000");
}

TEST_F(RealEtcd, EndsLeadershipWhenUnreachable) {
  const std::unique_ptr<Leadership> leader = elect("10.0.0.1:7000");
  (void)leader->load();
  processes_->kill(0);
  EXPECT_THROW(leader->store("one"), Error);  // after the time that the lease had left
  EXPECT_FALSE(leader->is_held());
}

TEST_F(RealEtcd, LocatorFollowsLeader) {
  const CoordinatorLocator locator(processes_->url());
  std::uint64_t seen = 0;
  const auto wait_for_address = [&] {
    for (const comm::Deadline deadline = soon(); !comm::passed(deadline);) {
      if (const auto address = locator.take_change(seen)) {
        return *address;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return std::string("none: ") + locator.problem();
  };
  std::unique_ptr<Leadership> leader = elect("10.0.0.1:7000");
  EXPECT_EQ(wait_for_address(), "10.0.0.1:7000");
  leader.reset();
  leader = elect("10.0.0.2:7000");
  EXPECT_EQ(wait_for_address(), "10.0.0.2:7000");
  EXPECT_FALSE(locator.take_change(seen));
  std::uint64_t other = 0;  // of another caller
  EXPECT_EQ(locator.take_change(other), "10.0.0.2:7000");
}

/// Tests with a real etcd that has a certificate.
class EncryptedEtcd : public testing::Test {
 protected:
  void SetUp() override {
    if (!why_no_etcd().empty()) {
      GTEST_SKIP() << why_no_etcd();
    }
  }
  /// What a client with these files gets for an answer; the words must be in it.
  static void expect_failure(const EtcdProcesses& processes, const TlsFiles& files,
                             std::string_view words) {
    const EtcdLocation location = parse_etcd_location(processes.url(), files);
    const std::string name = "etcd at " + comm::to_text(location.members[0]) + ": ";
    const std::array<std::string_view, 2> in_message{name, words};
    for (const std::string_view expected : in_message) {
      expect_error(ErrorKind::Peer, expected,
                   [&] { (void)Etcd(location).get("key", comm::deadline_in({1})); });
    }
  }

  /// The first failure with these words. Before it, nobody may be listening yet.
  static std::string wait_for_failure(const EtcdProcesses& processes, std::string_view words) {
    const EtcdLocation location = processes.location();
    const comm::Deadline deadline = comm::deadline_in(kSoon);
    std::string problem;
    while (problem.find(words) == std::string::npos && !comm::passed(deadline)) {
      try {
        (void)Etcd(location).get("key", comm::deadline_in({1}));
        ADD_FAILURE() << "etcd was trusted";
        break;
      } catch (const Error& error) {
        problem = error.what();
      }
    }
    EXPECT_NE(problem.find(words), std::string::npos) << problem;
    return problem;
  }

  TestCertificates certificates_;
};

TEST_F(EncryptedEtcd, IsTrustedOnlyWithItsCa) {
  EtcdProcesses processes(1, {.server = certificates_.server(), .client = certificates_.trust()});
  processes.wait_until_ready();
  Etcd etcd(processes.location());
  const std::string large(500'000, 'x');
  ASSERT_TRUE(etcd.put({.key = "a", .value = large}, comm::deadline_in(kSoon)).is_done);
  EXPECT_EQ(etcd.get("a", comm::deadline_in(kSoon)).found->value, large);

  const TestCertificates others;
  expect_failure(processes, others.trust(), ": pass the CA that signed it with --etcd-ca");
  expect_failure(processes, {}, "its certificate is not trusted: ");  // the system's CAs
  const EtcdLocation plain{.members = processes.location().members};
  expect_error(ErrorKind::Peer, "if it encrypts, write etcd+tls://",
               [&] { (void)Etcd(plain).get("a", comm::deadline_in({1})); });
}

TEST_F(EncryptedEtcd, IsRejectedUnderAnotherAddress) {
  const TestCertificates elsewhere("10.1.2.3");
  const EtcdProcesses processes(1, {.server = elsewhere.server(), .client = elsewhere.trust()});
  const std::string problem = wait_for_failure(processes, "its certificate is not for 127.0.0.1");
  EXPECT_NE(problem.find("use a name or address that the certificate has"), std::string::npos)
      << problem;
}

TEST_F(EncryptedEtcd, IsRejectedWithExpiredCertificate) {
  certificates_.expire_server();
  const EtcdProcesses processes(
      1, {.server = certificates_.server(), .client = certificates_.trust()});
  const std::string problem = wait_for_failure(processes, "its certificate has expired");
  EXPECT_EQ(problem.find("etcd at 127.0.0.1:"), 0U) << problem;
  EXPECT_NE(problem.find("renew it, or set the clocks"), std::string::npos) << problem;
}

TEST_F(EncryptedEtcd, RequiresClientCertificates) {
  EtcdProcesses processes(1, {.server = certificates_.server(),
                              .client = certificates_.client(),
                              .demands_certificates = true});
  processes.wait_until_ready();
  EXPECT_FALSE(Etcd(processes.location()).get("a", comm::deadline_in(kSoon)).found);
  expect_failure(processes, certificates_.trust(),
                 "pass one that its CA signed with --etcd-cert and --etcd-key");
  const TestCertificates others;
  TlsFiles foreign = others.client();
  foreign.ca = certificates_.trust().ca;
  expect_failure(processes, foreign, "it refuses this client's certificate: ");
}

TEST_F(EncryptedEtcd, DoesNotSpeakTlsWithoutCertificate) {
  EtcdProcesses processes(1);
  processes.wait_until_ready();
  EtcdLocation location = processes.location();
  location.tls = std::make_shared<const comm::TlsTrust>(certificates_.trust());
  expect_error(ErrorKind::Peer, "TLS handshake: write etcd:// if it does not encrypt",
               [&] { (void)Etcd(location).get("key", comm::deadline_in({1})); });
}

/// Two candidates that count in the stored state while they lead.
class CountingLeaders {
 public:
  explicit CountingLeaders(std::array<EtcdLocation, 2> locations)
      : locations_(std::move(locations)) {
    for (std::size_t i = 0; i < leaders_.size(); ++i) {
      threads_.emplace_back([this, i] { run(i); });
    }
  }
  ~CountingLeaders() { stop(); }
  CountingLeaders(const CountingLeaders&) = delete;
  CountingLeaders& operator=(const CountingLeaders&) = delete;

  void stop() {
    stopping_ = true;
    for (std::thread& thread : threads_) {
      thread.join();
    }
    threads_.clear();
  }
  void wait_for_leader(std::size_t candidate) {
    const comm::Deadline deadline = comm::deadline_in(kSoon);
    while (!does_lead(candidate) && !comm::passed(deadline)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_FALSE(comm::passed(deadline)) << "candidate " << candidate << " is not elected";
  }

 private:
  void run(std::size_t self) {
    bool rests = false;
    while (!stopping_) {
      if (std::exchange(rests, false)) {  // so that the other one is elected
        std::this_thread::sleep_for(std::chrono::seconds(2));
      }
      const std::unique_ptr<Leadership> leader =
          run_for_leader({.location = locations_.at(self),
                          .listen = [] { return std::string("10.0.0.1:7000"); },
                          .stopping = &stopping_});
      if (leader) {
        set_leader(self, leader.get());
        lead(self);
        set_leader(self, nullptr);
        rests = true;
      }
    }
  }
  [[nodiscard]] bool does_lead(std::size_t candidate) {
    const MutexLock lock(mutex_);
    return leaders_.at(candidate) != nullptr && leaders_.at(candidate)->is_held();
  }
  void set_leader(std::size_t self, Leadership* leader) {
    const MutexLock lock(mutex_);
    leaders_.at(self) = leader;
  }
  void lead(std::size_t self) {
    Leadership& leader = *leaders_.at(self);
    try {
      const std::string state = leader.load();
      std::int64_t count = state.empty() ? 0 : std::stoll(state);
      for (const comm::Deadline end = comm::deadline_in({3}); !stopping_ && !comm::passed(end);) {
        leader.store(std::to_string(++count));
        check(self, count);
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
    } catch (const Error&) {  // deposed
    }
  }
  /// A count that was stored is known to whoever leads later, and the other one does not lead now.
  void check(std::size_t self, std::int64_t count) {
    const MutexLock lock(mutex_);
    const Leadership* const other = leaders_.at(1 - self);
    const bool does_other_lead = other != nullptr && other->is_held();
    if (leaders_.at(self)->is_held()) {
      EXPECT_FALSE(does_other_lead);
      EXPECT_GT(count, count_);
      count_ = count;
    }
  }

  std::array<EtcdLocation, 2> locations_;
  std::atomic<bool> stopping_ = false;
  Mutex mutex_;
  std::array<Leadership*, 2> leaders_{};  ///< those that were elected and have not given up
  std::int64_t count_ = 0;
  std::vector<std::thread> threads_;
};

/// The first candidate knows one member of three, which pauses: etcd ends its lease, and it cannot know. When the member
/// continues, it may believe that it is etcd's leader, and confirm renewals.
TEST(Leadership, IsHeldByOneLeaderWhenItsEtcdMemberPauses) {
  if (!why_no_etcd().empty()) {
    GTEST_SKIP() << why_no_etcd();
  }
  EtcdProcesses etcd(3);
  etcd.wait_until_ready();
  std::array<EtcdLocation, 2> locations{etcd.location(), etcd.location()};
  locations[0].members.resize(1);
  locations[1].members.erase(locations[1].members.begin());
  CountingLeaders leaders(locations);
  for (int round = 0; round < 2; ++round) {
    leaders.wait_for_leader(0);
    etcd.pause(0);
    leaders.wait_for_leader(1);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));  // its checks
    etcd.resume(0);
  }
  leaders.stop();
}

}  // namespace
}  // namespace trireme::ps
