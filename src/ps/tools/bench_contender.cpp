#include "ps/tools/bench_contender.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <poll.h>

#include "comm/net/deadline.h"
#include "trireme/error.h"

namespace trireme::ps {

namespace {

/// A vector there and one of the same size back.
StreamContender::Exchange vector_exchange(std::size_t floats) {
  const std::vector<float> ones(floats, 1.0F);
  const auto bytes = std::as_bytes(std::span(ones));
  return {std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), bytes.size()};
}

}  // namespace

StreamContender::StreamContender(comm::Fd socket, std::vector<Exchange> exchanges, comm::Fd answers)
    : socket_(std::move(socket)), answers_(std::move(answers)), exchanges_(std::move(exchanges)) {
  for (const Exchange& exchange : exchanges_) {
    answer_.resize(std::max(answer_.size(), exchange.answer_bytes));
  }
}

bool StreamContender::send_more() {
  if (sent_ == begun_) {
    return false;
  }
  const std::string& request = exchanges_[sent_ % exchanges_.size()].request;
  const auto rest = std::as_bytes(std::span(request)).subspan(sent_bytes_);
  const std::size_t moved = comm::send_some(socket_, rest).bytes;
  sent_bytes_ += moved;
  if (sent_bytes_ == request.size()) {
    sent_bytes_ = 0;
    ++sent_;
  }
  return moved > 0;
}

bool StreamContender::receive_more() {
  const std::size_t size = exchanges_[done_ % exchanges_.size()].answer_bytes;
  const auto rest = std::span(answer_).first(size).subspan(received_bytes_);
  const std::size_t moved = comm::receive_some(answers(), rest).bytes;
  received_bytes_ += moved;
  if (received_bytes_ == size) {
    received_bytes_ = 0;
    ++done_;
  }
  return moved > 0;
}

/// Sends and receives in turn: with several in flight, blocking in either would block both sides.
bool StreamContender::drain_one() {
  if (done_ == begun_) {
    return false;
  }
  const comm::Deadline deadline = comm::deadline_in(kBenchPatience);
  for (const std::size_t before = done_; done_ == before;) {
    const bool has_sent = send_more();
    const bool has_received = receive_more();
    if (!has_sent && !has_received) {
      std::array<pollfd, 2> waiting{
          pollfd{.fd = answers().get(), .events = POLLIN, .revents = 0},
          pollfd{.fd = sent_ < begun_ ? socket_.get() : -1, .events = POLLOUT, .revents = 0}};
      (void)::poll(waiting.data(), waiting.size(), comm::poll_timeout(deadline));
      const bool is_broken = std::ranges::any_of(
          waiting, [](const pollfd& one) { return (one.revents & (POLLERR | POLLHUP)) != 0; });
      if (comm::passed(deadline) || is_broken) {
        throw Error(ErrorKind::Peer, "the other side of the benchmark does not answer");
      }
    }
  }
  return true;
}

void StreamContender::step(std::size_t depth) {
  begun_ = std::max(begun_, done_ + depth);
  (void)drain_one();
}

EchoServer::EchoServer(std::size_t floats, Answer answer)
    : listener_(comm::listen_on()), floats_(floats), answer_(answer), thread_([this] { run(); }) {}

EchoServer::~EchoServer() {
  thread_.join();
}

void EchoServer::run() const {
  try {
    answer_all(comm::accept_one(listener_.socket, comm::deadline_in(kBenchPatience)));
  } catch (const Error&) {
    // the client has closed
  }
}

void EchoServer::answer_all(const comm::Fd& socket) const {
  FloatBuffer received(floats_);
  FloatBuffer sum(floats_);
  std::ranges::fill(sum.view(), 0.0F);
  const std::span<const std::byte> answer =
      std::as_bytes(answer_ == Answer::Sum ? sum.view() : received.view());
  for (;;) {
    comm::receive_all(socket, std::as_writable_bytes(received.view()), comm::deadline_in({3600}));
    for (std::size_t i = 0; answer_ == Answer::Sum && i < floats_; ++i) {
      sum.view()[i] += received.view()[i];
    }
    comm::send_all(socket, answer_ == Answer::Byte ? answer.first(1) : answer,
                   comm::deadline_in(kBenchPatience));
  }
}

std::unique_ptr<StreamContender> EchoServer::connect() const {
  StreamContender::Exchange exchange = vector_exchange(floats_);
  exchange.answer_bytes = answer_ == Answer::Byte ? 1 : exchange.answer_bytes;
  return std::make_unique<StreamContender>(
      comm::connect_to(listener_.address, comm::deadline_in(kBenchPatience)),
      std::vector<StreamContender::Exchange>{std::move(exchange)});
}

RelayEcho::RelayEcho(std::size_t floats) : floats_(floats) {
  const comm::Deadline deadline = comm::deadline_in(kBenchPatience);
  const auto connection = [&] {
    const comm::Listener listener = comm::listen_on();
    comm::Fd near = comm::connect_to(listener.address, deadline);
    return std::pair(std::move(near), comm::accept_one(listener.socket, deadline));
  };
  auto [client, head_in] = connection();
  auto [head_out, tail_in] = connection();
  auto [tail_out, answers] = connection();
  client_ = std::make_unique<StreamContender>(
      std::move(client), std::vector<StreamContender::Exchange>{vector_exchange(floats)},
      std::move(answers));
  threads_[0] = std::thread(
      [this, from = std::move(head_in), to = std::move(head_out)] { run(from, to, false); });
  threads_[1] = std::thread(
      [this, from = std::move(tail_in), to = std::move(tail_out)] { run(from, to, true); });
}

RelayEcho::~RelayEcho() {
  client_.reset();
  std::ranges::for_each(threads_, &std::thread::join);
}

void RelayEcho::run(const comm::Fd& from, const comm::Fd& to, bool is_last) const {
  FloatBuffer received(floats_);
  FloatBuffer sum(floats_);
  std::ranges::fill(sum.view(), 0.0F);
  try {
    for (;;) {
      comm::receive_all(from, std::as_writable_bytes(received.view()), comm::deadline_in({3600}));
      for (std::size_t i = 0; i < floats_; ++i) {
        sum.view()[i] += received.view()[i];
      }
      comm::send_all(to, std::as_bytes(is_last ? sum.view() : received.view()),
                     comm::deadline_in(kBenchPatience));
    }
  } catch (const Error&) {
    // the predecessor has closed
  }
}

RedisServer::RedisServer(const std::string& program)
    : address_(comm::listen_on().address),
      process_(std::make_unique<ChildProcess>(
          std::vector<std::string>{program, "--port", fmt::format("{}", address_.port), "--bind",
                                   "127.0.0.1", "--save", "", "--appendonly", "no"},
          "LC_ALL=C")) {}

std::unique_ptr<StreamContender> RedisServer::connect(std::size_t bytes,
                                                      const std::vector<Command>& commands) const {
  const std::string expected = fmt::format("${}\r\n{}\r\n", bytes, std::string(bytes, '\1'));
  const StreamContender::Exchange set{"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n" + expected, 5};  // +OK
  const StreamContender::Exchange get{"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", expected.size()};
  const auto connected = [&](std::vector<StreamContender::Exchange> exchanges) {
    return std::make_unique<StreamContender>(
        comm::connect_to(address_, comm::deadline_in(kBenchPatience)), std::move(exchanges));
  };
  const auto check = connected({set, get});
  check->step(1);
  check->step(1);
  if (!std::ranges::equal(check->last_answer(), std::as_bytes(std::span(expected)))) {
    throw Error(ErrorKind::Peer, "Redis does not return what was set");
  }
  std::vector<StreamContender::Exchange> exchanges;
  exchanges.reserve(commands.size());
  for (const Command command : commands) {
    exchanges.push_back(command == Command::Set ? set : get);
  }
  return connected(std::move(exchanges));
}

ParameterContender::ParameterContender(ParameterClient& client, std::size_t floats,
                                       Operation operation)
    : client_(client),
      operation_(operation),
      table_(client.create_table({.name = fmt::format("vectors of {} floats for operation {}",
                                                      floats, static_cast<int>(operation)),
                                  .keys = 1,
                                  .width = static_cast<std::uint32_t>(floats)})),
      gradient_(floats, 1.0F) {
  check();
}

void ParameterContender::check() {
  std::vector<float> values(gradient_.size());
  client_.push_pull(table_, Keys::range(0, 1), gradient_, values).wait();
  client_.push_pull(table_, Keys::range(0, 1), gradient_, values).wait();
  if (std::cmp_not_equal(std::ranges::count(values, 2.0F), values.size())) {
    throw Bug("the parameter server returns wrong sums");
  }
}

PendingOperation ParameterContender::begin() {
  std::vector<float>& values = values_[next_++ % values_.size()];
  switch (operation_) {
    case Operation::Push:
      return client_.push(table_, Keys::range(0, 1), gradient_);
    case Operation::Pull:
      return client_.pull(table_, Keys::range(0, 1), values);
    default:
      return client_.push_pull(table_, Keys::range(0, 1), gradient_, values);
  }
}

void ParameterContender::step(std::size_t depth) {
  while (values_.size() < depth) {
    values_.emplace_back(gradient_.size());
  }
  while (pending_.size() < depth) {
    pending_.push_back(begin());
  }
  (void)drain_one();
}

bool ParameterContender::drain_one() {
  if (pending_.empty()) {
    return false;
  }
  pending_.front().wait();
  pending_.pop_front();
  return true;
}

}  // namespace trireme::ps
