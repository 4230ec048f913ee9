#include "comm/rendezvous/store_wire.h"

#include <algorithm>
#include <limits>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "comm/net/secret.h"
#include "comm/rendezvous/store.h"
#include "comm/rendezvous/store_service.h"
#include "comm/rendezvous_helpers.h"

namespace trireme::comm {
namespace {

std::string rest_of(const std::string& frame) {
  return frame.substr(4);
}

TEST(StoreWire, RequestsRoundTrip) {
  const std::string bytes("a\0b\n\xff", 5);
  for (const auto what : {Request::What::Set, Request::What::Get, Request::What::Add,
                          Request::What::Cancel, Request::What::Insert}) {
    Request request{.id = 70000, .what = what, .key = bytes, .value = {}};
    request.value = what == Request::What::Set || what == Request::What::Insert ? bytes : "";
    request.delta = what == Request::What::Add ? std::numeric_limits<std::int64_t>::min() : 0;
    const Request read = decode_request(rest_of(encode(request)));
    EXPECT_EQ(read.id, 70000U);
    EXPECT_EQ(read.what, what);
    EXPECT_EQ(read.key, bytes);
    EXPECT_EQ(read.value, request.value);
    EXPECT_EQ(read.delta, request.delta);
  }
}

TEST(StoreWire, RepliesRoundTrip) {
  const Reply reply = decode_reply(rest_of(encode(5, Reply::Status::Refused, "no")));
  EXPECT_EQ(reply.id, 5U);
  EXPECT_EQ(reply.status, Reply::Status::Refused);
  EXPECT_EQ(reply.body, "no");
  EXPECT_EQ(decode_number(encode_number(-3)), -3);
}

TEST(StoreWire, RejectsMalformedRequests) {
  const auto refuses = [](const std::string& rest, const std::string& word) {
    expect_error(ErrorKind::Input, {"store: malformed frame", word},
                 [&] { (void)decode_request(rest); });
  };
  const std::string get = rest_of(encode(Request{.id = 1, .key = "key", .value = {}}));
  refuses("", "where the id has 4");
  refuses(get.substr(0, 5), "the length of the key");
  refuses(get.substr(0, 10), "the key has 3");
  refuses(get + "x", "1 bytes behind");
  refuses(std::string(4, '\0') + get.substr(4), "id 0");
  refuses(get.substr(0, 4) + "\x09" + get.substr(5), "kind 9");
  refuses(get.substr(0, 5) + std::string("\xff\xff\xff\xff") + "key", "a key of 4294967295 bytes");
  refuses(rest_of(encode(Request{.id = 1, .key = "", .value = {}})), "a key of 0 bytes");
  Request add{.id = 1, .what = Request::What::Add, .key = "k", .value = {}};
  refuses(rest_of(encode(add)) + "x", "a number of 9 bytes");
  expect_error(ErrorKind::Input, {"status 7"},
               [] { (void)decode_reply(std::string("\1\0\0\0\7", 5)); });
}

TEST(FrameReader, HandlesAnyFragmentation) {
  const std::string stream = encode(1, Reply::Status::Done, "one") +
                             encode(2, Reply::Status::Done, "") +
                             encode(3, Reply::Status::Done, std::string(1000, 'x'));
  for (const std::size_t piece : {1, 3, 8, 2000}) {
    FrameReader reader;
    std::vector<std::uint32_t> ids;
    for (std::size_t at = 0; at < stream.size(); at += piece) {
      reader.add(bytes_of(stream).subspan(at, std::min(piece, stream.size() - at)));
      while (const auto frame = reader.next()) {
        ids.push_back(decode_reply(*frame).id);
      }
    }
    EXPECT_EQ(ids, (std::vector<std::uint32_t>{1, 2, 3}));
  }
}

TEST(FrameReader, RejectsOversizedFrameImmediately) {
  FrameReader reader;
  reader.add(bytes_of(std::string_view("\0\0\0\x7f", 4)));
  expect_error(ErrorKind::Input, {"2130706432 bytes are announced"}, [&] { (void)reader.next(); });
}

/// Random requests, random damage: each frame is answered or rejected, and the service stays
/// consistent.
TEST(StoreWire, SurvivesRandomBytes) {
  std::mt19937_64 random(42);
  StoreService service;
  std::size_t refused = 0;
  for (int round = 0; round < 20000; ++round) {
    Request request{.id = static_cast<std::uint32_t>(random() % 4),
                    .what = static_cast<Request::What>(1 + random() % 4),
                    .key = std::string(random() % 3, static_cast<char>('a' + random() % 3)),
                    .value = std::string(random() % 20, static_cast<char>(random()))};
    std::string frame = encode(request);
    for (std::size_t flips = random() % 4; flips > 0; --flips) {
      frame[random() % frame.size()] = static_cast<char>(random());
    }
    frame.resize(random() % 8 == 0 ? random() % (frame.size() + 1) : frame.size());
    try {
      FrameReader reader;
      reader.add(bytes_of(frame));
      while (const auto rest = reader.next()) {
        for (const Answer& answer : service.handle(random() % 5, decode_request(*rest))) {
          ASSERT_LT(answer.client, 5U);
          (void)decode_reply(rest_of(answer.frame));
        }
      }
    } catch (const Error& error) {
      ASSERT_EQ(error.kind(), ErrorKind::Input) << error.what();
      ++refused;
    }
    if (random() % 50 == 0) {
      service.forget(random() % 5);
    }
  }
  EXPECT_GT(refused, 1000U);
  for (std::uint64_t client = 0; client < 5; ++client) {
    service.forget(client);
  }
  EXPECT_EQ(service.waiting(), 0U);
}

TEST(StoreService, WakesEachWaiterOnce) {
  StoreService service;
  const auto get = [](std::uint32_t id) {
    return Request{.id = id, .what = Request::What::Get, .key = "k", .value = {}};
  };
  EXPECT_TRUE(service.handle(1, get(1)).empty());
  EXPECT_TRUE(service.handle(2, get(7)).empty());
  EXPECT_TRUE(service.handle(3, get(9)).empty());
  Request cancel = get(7);
  cancel.what = Request::What::Cancel;
  EXPECT_TRUE(service.handle(2, cancel).empty());
  service.forget(3);
  EXPECT_EQ(service.waiting(), 1U);
  const Request set{.id = 4, .what = Request::What::Set, .key = "k", .value = "v"};
  const std::vector<Answer> answers = service.handle(4, set);
  ASSERT_EQ(answers.size(), 2U);
  EXPECT_EQ(answers[0].client, 4U);
  EXPECT_EQ(answers[1].client, 1U);
  EXPECT_EQ(decode_reply(rest_of(answers[1].frame)).body, "v");
  EXPECT_EQ(service.waiting(), 0U);
  EXPECT_EQ(service.handle(5, set).size(), 1U);
}

}  // namespace
}  // namespace trireme::comm
