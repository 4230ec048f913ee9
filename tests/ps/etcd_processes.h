// An etcd of real processes, to be killed. One thread.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/json.h"
#include "comm/net/socket.h"
#include "ps/membership/etcd.h"
#include "ps/membership/http.h"
#include "ps/tools/child_process.h"
#include "temporary_folder.h"
#include "trireme/error.h"

namespace trireme::ps {

inline constexpr const char* kEtcdProgram = "/usr/bin/etcd";
/// For anything that should happen soon, on a loaded machine.
inline constexpr Seconds kSoon{180};

/// Why there can be no etcd here, or "".
[[nodiscard]] inline std::string why_no_etcd() {
  return std::filesystem::exists(kEtcdProgram)
             ? ""
             : "etcd is not installed: apt-get install etcd-server";
}

struct EtcdTls {
  TlsFiles server{};  ///< without a certificate: members do not encrypt
  TlsFiles client{};
  bool demands_certificates = false;  ///< of the clients
};

class EtcdProcesses {
 public:
  /// Where a member listens: for clients and for the other members.
  struct Place {
    comm::Address clients;
    comm::Address peers;
  };
  /// Starts something in the place of a member, such as a network namespace.
  using Start = std::function<std::unique_ptr<ChildProcess>(std::size_t member,
                                                            const std::vector<std::string>&)>;

  /// On this machine.
  explicit EtcdProcesses(std::size_t members, EtcdTls tls = {})
      : EtcdProcesses(
            free_places(members),
            [](std::size_t, const std::vector<std::string>& command) {
              return std::make_unique<ChildProcess>(command, "GOMAXPROCS=2");
            },
            std::move(tls)) {}
  EtcdProcesses(std::vector<Place> places, const Start& start, EtcdTls tls = {})
      : places_(std::move(places)), tls_(std::move(tls)) {
    for (std::size_t i = 0; i < places_.size(); ++i) {
      processes_.push_back(start(i, command(i)));
    }
  }

  [[nodiscard]] EtcdLocation location() const { return parse_etcd_location(url(), tls_.client); }
  [[nodiscard]] const TlsFiles& client_files() const { return tls_.client; }
  [[nodiscard]] std::string url() const {
    std::vector<std::string> members;
    for (const Place& place : places_) {
      members.push_back(comm::to_text(place.clients));
    }
    return fmt::format("{}://{}/test", is_encrypted() ? "etcd+tls" : "etcd",
                       fmt::join(members, ","));
  }
  void wait_until_ready() const {
    (void)Etcd(location()).get("anything", comm::deadline_in(kSoon));
  }

  /// The member that the others follow.
  [[nodiscard]] std::size_t leader() const {
    const EtcdLocation location = this->location();
    const comm::Deadline deadline = comm::deadline_in(kSoon);
    while (!comm::passed(deadline)) {
      for (std::size_t i = 0; i < places_.size(); ++i) {
        if (is_leader(location, i)) {
          return i;
        }
      }
    }
    throw std::runtime_error("etcd has no leader");
  }
  void kill(std::size_t member) { processes_[member]->kill(); }
  void pause(std::size_t member) { processes_[member]->pause(); }
  void resume(std::size_t member) { processes_[member]->resume(); }

 private:
  static std::vector<Place> free_places(std::size_t members) {
    std::vector<comm::Listener> held;  // so that all are different
    for (std::size_t i = 0; i < 2 * members; ++i) {
      held.push_back(comm::listen_on());
    }
    std::vector<Place> places;
    for (std::size_t i = 0; i < members; ++i) {
      places.push_back({held[2 * i].address, held[2 * i + 1].address});
    }
    return places;
  }

  [[nodiscard]] bool is_encrypted() const { return !tls_.server.certificate.empty(); }

  static bool is_leader(const EtcdLocation& location, std::size_t member) {
    try {
      const HttpRequest request{location.members[member], "/v3/maintenance/status", "{}",
                                location.tls.get()};
      const Json status = Json::parse(http_post(request, comm::deadline_in({5})).body);
      return status.at("leader") == status.at("header").at("member_id");
    } catch (const Error&) {
      return false;
    }
  }

  [[nodiscard]] std::vector<std::string> command(std::size_t i) const {
    const auto url = [](const comm::Address& address) {
      return "http://" + comm::to_text(address);
    };
    std::vector<std::string> cluster;
    for (std::size_t k = 0; k < places_.size(); ++k) {
      cluster.push_back(fmt::format("m{}={}", k, url(places_[k].peers)));
    }
    const std::string clients = fmt::format("{}://{}", is_encrypted() ? "https" : "http",
                                            comm::to_text(places_[i].clients));
    std::vector<std::string> command{kEtcdProgram,
                                     fmt::format("--name=m{}", i),
                                     fmt::format("--data-dir={}/m{}", folder_.path(), i),
                                     "--listen-client-urls=" + clients,
                                     "--advertise-client-urls=" + clients,
                                     "--listen-peer-urls=" + url(places_[i].peers),
                                     "--initial-advertise-peer-urls=" + url(places_[i].peers),
                                     fmt::format("--initial-cluster={}", fmt::join(cluster, ",")),
                                     "--logger=zap",
                                     fmt::format("--log-outputs={}/m{}.log", folder_.path(), i)};
    if (is_encrypted()) {
      command.insert(command.end(),
                     {"--cert-file=" + tls_.server.certificate, "--key-file=" + tls_.server.key});
    }
    if (tls_.demands_certificates) {
      command.insert(command.end(), {"--client-cert-auth", "--trusted-ca-file=" + tls_.server.ca});
    }
    return command;
  }

  TemporaryFolder folder_;
  std::vector<Place> places_;
  EtcdTls tls_;
  std::vector<std::unique_ptr<ChildProcess>> processes_;
};

}  // namespace trireme::ps
