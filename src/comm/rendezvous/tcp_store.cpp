#include "comm/rendezvous/tcp_store.h"

#include <utility>
#include <vector>

#include <fmt/format.h>

#include "comm/rendezvous/store_table.h"
#include "comm/rendezvous/store_wire.h"
#include "trireme/error.h"
#include "trireme/message.h"

namespace trireme::comm {
TcpStore::TcpStore(TcpStoreOptions options, Deadline deadline)
    : options_(std::move(options)),
      channel_(connect_channel(options_.server,
                               {.side = Side::Client,
                                .purpose = Purpose::Store,
                                .secret = options_.secret,
                                .encryption = options_.encryption,
                                .peer = "store " + to_text(options_.server)},
                               deadline)) {}

void TcpStore::set(const std::string& key, std::string value) {
  check_key(key);
  check_value(key, value);
  Request request{.what = Request::What::Set, .key = key, .value = std::move(value)};
  if (!ask(request, deadline_in(options_.patience))) {
    silent("set", key);
  }
}

std::string TcpStore::insert(const std::string& key, std::string value) {
  check_key(key);
  check_value(key, value);
  Request request{.what = Request::What::Insert, .key = key, .value = std::move(value)};
  std::optional<std::string> present = ask(request, deadline_in(options_.patience));
  if (!present) {
    silent("insert", key);
  }
  return std::move(*present);
}

std::string TcpStore::get(const std::string& key, Deadline deadline) {
  check_key(key);
  const Clock::time_point begin = Clock::now();
  Request request{.what = Request::What::Get, .key = key, .value = {}};
  if (std::optional<std::string> value = ask(request, deadline)) {
    return std::move(*value);
  }
  // The server need not remember it. The frame is short: if it cannot be sent at once, nothing can.
  request.what = Request::What::Cancel;
  send(request, deadline_in({0.1}));
  throw Error(ErrorKind::Peer,
              fmt::format("store {}: key {} was not set within {}", to_text(options_.server),
                          in_quotes(key), trireme::to_text(since(begin))));
}

std::int64_t TcpStore::add(const std::string& key, std::int64_t delta) {
  check_key(key);
  Request request{.what = Request::What::Add, .key = key, .value = {}, .delta = delta};
  const std::optional<std::string> sum = ask(request, deadline_in(options_.patience));
  if (!sum) {
    silent("add to", key);
  }
  return decode_number(*sum);
}

std::optional<std::string> TcpStore::ask(Request& request, Deadline deadline) {
  request.id = ++last_id_ == 0 ? ++last_id_ : last_id_;
  // A get whose deadline has passed is still sent; only the answer is not waited for.
  const Deadline send_by = std::max(deadline, deadline_in({0.1}));
  send(request, send_by);
  std::optional<Reply> reply = receive(request.id, deadline);
  if (!reply) {
    return std::nullopt;
  }
  if (reply->status == Reply::Status::Refused) {
    throw Error(ErrorKind::Usage, reply->body);
  }
  return std::move(reply->body);
}

void TcpStore::send(const Request& request, Deadline deadline) {
  if (!lost_.empty()) {
    lost(lost_);
  }
  try {
    send_all(channel_, bytes_of(encode(request)), deadline);
  } catch (const Error& error) {  // perhaps in the middle of a frame
    lost(error.what());
  }
}

std::optional<Reply> TcpStore::receive(std::uint32_t id, Deadline deadline) {
  std::vector<std::byte> chunk(kStoreReadBytes);
  try {
    for (;;) {
      if (std::optional<Reply> reply = find_reply(id)) {
        return reply;
      }
      const std::size_t bytes = receive_some(channel_, chunk, deadline);
      if (bytes == 0) {
        return std::nullopt;
      }
      reader_.add(std::span(chunk).first(bytes));
    }
  } catch (const Error& error) {
    lost(error.what());
  }
}

/// The reply, if it has arrived. Drops replies to cancelled gets.
std::optional<Reply> TcpStore::find_reply(std::uint32_t id) {
  while (const std::optional<std::string> frame = reader_.next()) {
    Reply reply = decode_reply(*frame);
    if (reply.id == id) {
      return reply;
    }
    if (reply.id == 0) {
      throw Error(ErrorKind::Peer, "the server closes the connection: " + reply.body);
    }
  }
  return std::nullopt;
}

void TcpStore::lost(const std::string& why) {
  lost_ = why;
  throw Error(ErrorKind::System,
              fmt::format("lost the store at {}: {}", to_text(options_.server), why));
}

void TcpStore::silent(std::string_view what, const std::string& key) {
  lost(fmt::format("no answer to '{} key {}' within {}", what, in_quotes(key),
                   trireme::to_text(options_.patience)));
}

}  // namespace trireme::comm
