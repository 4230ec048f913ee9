// Etcd: a client of etcd's key-value store (version 3.4 or later), through its JSON gateway. Every call has a deadline; until
// then it tries one member after the other. One thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/net/address.h"
#include "comm/net/deadline.h"
#include "comm/net/tls_client.h"
#include "trireme/tls_files.h"
#include "trireme/units.h"

namespace trireme::ps {

/// Where the membership of a cluster of parameter servers is kept: "etcd://10.0.0.1:2379,10.0.0.2:2379/NAME", or
/// "etcd+tls://…".
struct EtcdLocation {
  std::vector<comm::Address> members{};
  std::string cluster = "default";              ///< several clusters may share an etcd
  std::shared_ptr<const comm::TlsTrust> tls{};  ///< nothing: connections are not encrypted
};
[[nodiscard]] bool is_etcd_location(std::string_view text);
/// Reads the files, which are for etcd+tls:// only. Throws Error(Usage).
[[nodiscard]] EtcdLocation parse_etcd_location(std::string_view text, const TlsFiles& files = {});

/// For one call, where the caller has no deadline of its own.
inline constexpr Seconds kEtcdPatience{3};

using EtcdRevision = std::int64_t;  ///< 0: the key does not exist

/// Which member answered, and what it knew then.
struct EtcdHeader {
  std::string member{};
  std::int64_t term = 0;  ///< of the election of etcd's leader
  EtcdRevision revision = 0;
};

struct EtcdValue {
  std::string value{};
  EtcdRevision created = 0;
  EtcdRevision modified = 0;
};

struct EtcdRead {
  EtcdHeader header{};
  std::optional<EtcdValue> found{};
};

struct EtcdLease {
  std::int64_t id = 0;
  Seconds ttl{};  ///< as granted, which may be more than was requested; 0: it has ended
  EtcdHeader header{};
};

/// A put that happens only if all conditions hold.
struct EtcdPut {
  struct Condition {
    enum class Of : std::uint8_t { Created, Modified };
    std::string key{};
    Of of = Of::Created;
    EtcdRevision is = 0;
  };
  std::vector<Condition> conditions{};
  std::string key{};
  std::string value{};
  std::int64_t lease = 0;  ///< with which the key ends; 0: never
};
struct EtcdPutResult {
  bool is_done = false;
  EtcdRevision revision = 0;         ///< of the put, if it was done
  std::optional<EtcdValue> found{};  ///< what the key has, if it was not done
};

class Etcd {
 public:
  explicit Etcd(const EtcdLocation& location);

  // Each throws Error(Peer) that names the members if none has answered by the deadline: a change may then happen or not.
  // Throws Error(System) with the member and its reason if a member refuses.

  /// Linearizable: the value at some moment between call and return.
  [[nodiscard]] EtcdRead get(const std::string& key, comm::Deadline deadline);
  /// If it throws, it may still happen, even after a later call has returned.
  [[nodiscard]] EtcdPutResult put(const EtcdPut& put, comm::Deadline deadline);
  [[nodiscard]] EtcdLease grant(Seconds ttl, comm::Deadline deadline);
  /// `header` is from before the renewal.
  [[nodiscard]] EtcdLease renew(std::int64_t lease, comm::Deadline deadline);
  void revoke(std::int64_t lease, comm::Deadline deadline);

 private:
  struct Request;
  template <class Read>
  auto call(const Request& request, comm::Deadline deadline, const Read& read);

  std::vector<comm::Address> members_;
  std::shared_ptr<const comm::TlsTrust> tls_;
  std::size_t current_ = 0;  ///< the last that answered
};

}  // namespace trireme::ps
