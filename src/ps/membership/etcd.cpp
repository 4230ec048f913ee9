#include "ps/membership/etcd.h"

#include <algorithm>
#include <cmath>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/json.h"
#include "base/text.h"
#include "ps/membership/base64.h"
#include "ps/membership/http.h"
#include "trireme/error.h"
#include "trireme/message.h"

namespace trireme::ps {

struct Etcd::Request {
  std::string path;
  std::string json;
};

namespace {

constexpr std::string_view kScheme = "etcd://";
constexpr std::string_view kTlsScheme = "etcd+tls://";
constexpr Seconds kAttempt{2};  ///< at most for one member: another one may answer at once
constexpr std::chrono::milliseconds kPause(50);

/// 64-bit numbers are texts, and zeros are left out.
std::int64_t number(const Json& object, std::string_view name) {
  const Json* const field = object.find(name);
  if (field == nullptr) {
    return 0;
  }
  const std::string text = field->get<std::string>();
  const std::optional<std::int64_t> value = parse_integer(text);
  if (!value) {
    throw Error(ErrorKind::Input, fmt::format("'{}' of '{}' is not a number", text, name));
  }
  return *value;
}

EtcdHeader header_of(const Json& answer) {
  const Json& header = answer.at("header");
  return {.member = header.at("member_id").get<std::string>(),
          .term = number(header, "raft_term"),
          .revision = number(header, "revision")};
}

/// Of a range of one key.
std::optional<EtcdValue> value_of(const Json& range) {
  const Json* const list = range.find("kvs");
  if (list == nullptr || list->empty()) {
    return std::nullopt;
  }
  const Json& entry = list->front();
  const Json* const value = entry.find("value");
  return EtcdValue{.value = value ? from_base64(value->get<std::string>()) : "",
                   .created = number(entry, "create_revision"),
                   .modified = number(entry, "mod_revision")};
}

Json condition_json(const EtcdPut::Condition& condition) {
  const bool is_created = condition.of == EtcdPut::Condition::Of::Created;
  return {{"key", to_base64(condition.key)},
          {"target", is_created ? "CREATE" : "MOD"},
          {"result", "EQUAL"},
          {is_created ? "create_revision" : "mod_revision", fmt::format("{}", condition.is)}};
}

/// "etcdserver: request is too large".
std::string reason_of(const HttpResponse& response) {
  try {
    return Json::parse(response.body).at("error").get<std::string>();
  } catch (const Error&) {
    return fmt::format("HTTP status {}", response.status);
  }
}

std::string name_of(const comm::Address& member) {
  return fmt::format("etcd at {}", comm::to_text(member));
}

std::string_view fix_of(comm::TlsFailure::Cause cause) {
  using Cause = comm::TlsFailure::Cause;
  switch (cause) {
    case Cause::Untrusted:
      return ": pass the CA that signed it with --etcd-ca";
    case Cause::WrongHost:
      return ": use a name or address that the certificate has";
    case Cause::Expired:
      return ": renew it, or set the clocks";
    case Cause::Refused:
      return ": pass one that its CA signed with --etcd-cert and --etcd-key";
    case Cause::NotTls:
      return ": write etcd:// if it does not encrypt, or start it with --cert-file and --key-file";
    case Cause::Other:
      break;
  }
  return "";
}

/// Throws Error(Peer) if another member might answer, Error(System) if it would say the same.
template <class Read>
auto post(const HttpRequest& request, comm::Deadline deadline, const Read& read) {
  const std::string name = name_of(request.server);
  HttpResponse response;
  try {
    response = http_post(request, deadline);
  } catch (const comm::TlsFailure& failure) {
    throw Error(ErrorKind::Peer,
                fmt::format("{}: {}{}", name, failure.what(), fix_of(failure.cause())));
  } catch (const Error& error) {
    throw Error(ErrorKind::Peer, fmt::format("{}: {}", name, error.what()));
  }
  if (response.status != 200) {
    throw Error(response.status >= 500 ? ErrorKind::Peer : ErrorKind::System,
                fmt::format("{}: {}", name, reason_of(response)));
  }
  try {
    return read(Json::parse(response.body));
  } catch (const Error& error) {
    throw Error(ErrorKind::Peer, fmt::format("{}: not an answer of etcd: {}", name, error.what()));
  }
}

bool is_cluster_name(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  });
}

}  // namespace

bool is_etcd_location(std::string_view text) {
  return text.starts_with(kScheme) || text.starts_with(kTlsScheme);
}

EtcdLocation parse_etcd_location(std::string_view text, const TlsFiles& files) {
  const auto refuse = [&](std::string_view why) {
    throw Error(ErrorKind::Usage,
                fmt::format("{}: {}; write it like etcd://10.0.0.1:2379,10.0.0.2:2379/NAME",
                            in_quotes(text), why));
  };
  if (!is_etcd_location(text)) {
    refuse("does not begin with etcd:// or etcd+tls://");
  }
  const bool is_encrypted = text.starts_with(kTlsScheme);
  if (!is_encrypted && files != TlsFiles{}) {
    refuse("--etcd-ca, --etcd-cert and --etcd-key are for etcd+tls://");
  }
  EtcdLocation location;
  std::string_view members = text.substr((is_encrypted ? kTlsScheme : kScheme).size());
  if (const std::size_t slash = members.find('/'); slash != std::string_view::npos) {
    location.cluster = members.substr(slash + 1);
    members = members.substr(0, slash);
  }
  if (!is_cluster_name(location.cluster)) {
    refuse("the name has other characters than letters, digits, '-', '_' and '.'");
  }
  for (const std::string_view member : split(members, ',')) {
    location.members.push_back(comm::parse_address(member));
  }
  if (is_encrypted) {
    location.tls = std::make_shared<const comm::TlsTrust>(files);
  }
  return location;
}

Etcd::Etcd(const EtcdLocation& location) : members_(location.members), tls_(location.tls) {
  require(!members_.empty(), "etcd has no members");
}

template <class Read>
auto Etcd::call(const Request& request, comm::Deadline deadline, const Read& read) {
  std::vector<std::string> problems(members_.size());
  for (std::size_t tried = 0;;) {
    const auto untried = static_cast<std::int64_t>(members_.size() - tried);
    const comm::Clock::time_point now = comm::Clock::now();
    const comm::Clock::duration share =
        std::min((deadline - now) / untried, comm::duration(kAttempt));
    try {
      return post({members_[current_], request.path, request.json, tls_.get()}, now + share, read);
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::System) {
        throw;
      }
      // An attempt that was cut short says less than the one before it.
      const bool was_cut_short = share < comm::duration(kAttempt) && comm::passed(now + share);
      if (problems[current_].empty() || !was_cut_short) {
        problems[current_] = error.what();
      }
    }
    current_ = (current_ + 1) % members_.size();
    if (++tried == members_.size()) {
      if (comm::passed(deadline)) {
        throw Error(ErrorKind::Peer, fmt::format("{}", fmt::join(problems, "; ")));
      }
      tried = 0;
      std::this_thread::sleep_for(kPause);
    }
  }
}

EtcdRead Etcd::get(const std::string& key, comm::Deadline deadline) {
  return call({"/v3/kv/range", Json{{"key", to_base64(key)}}.dump()}, deadline,
              [](const Json& answer) {
                return EtcdRead{.header = header_of(answer), .found = value_of(answer)};
              });
}

EtcdPutResult Etcd::put(const EtcdPut& put, comm::Deadline deadline) {
  Json conditions = Json::array();
  for (const EtcdPut::Condition& condition : put.conditions) {
    conditions.push_back(condition_json(condition));
  }
  const std::string key = to_base64(put.key);
  const Json write{{"request_put", Json{{"key", key},
                                        {"value", to_base64(put.value)},
                                        {"lease", fmt::format("{}", put.lease)}}}};
  const Json read{{"request_range", Json{{"key", key}, {"limit", 1}}}};
  const Json transaction{
      {"compare", conditions}, {"success", Json::array({write})}, {"failure", Json::array({read})}};
  return call({"/v3/kv/txn", transaction.dump()}, deadline, [](const Json& answer) {
    const Json* const succeeded = answer.find("succeeded");
    if (succeeded != nullptr && succeeded->get<bool>()) {
      return EtcdPutResult{.is_done = true, .revision = header_of(answer).revision};
    }
    return EtcdPutResult{.found = value_of(answer.at("responses").front().at("response_range"))};
  });
}

EtcdLease Etcd::grant(Seconds ttl, comm::Deadline deadline) {
  const auto whole = static_cast<std::int64_t>(std::ceil(ttl.count));
  return call({"/v3/lease/grant", Json{{"TTL", whole}}.dump()}, deadline, [](const Json& answer) {
    return EtcdLease{.id = number(answer, "ID"),
                     .ttl = {static_cast<double>(number(answer, "TTL"))},
                     .header = header_of(answer)};
  });
}

EtcdLease Etcd::renew(std::int64_t lease, comm::Deadline deadline) {
  const Json request{{"ID", fmt::format("{}", lease)}};
  return call({"/v3/lease/keepalive", request.dump()}, deadline, [&](const Json& answer) {
    const Json& result = answer.at("result");
    return EtcdLease{.id = lease,
                     .ttl = {static_cast<double>(number(result, "TTL"))},
                     .header = header_of(result)};
  });
}

void Etcd::revoke(std::int64_t lease, comm::Deadline deadline) {
  const Json request{{"ID", fmt::format("{}", lease)}};
  call({"/v3/lease/revoke", request.dump()}, deadline, [](const Json&) { return true; });
}

}  // namespace trireme::ps
