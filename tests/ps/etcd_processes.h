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
  explicit EtcdProcesses(std::size_t members)
      : EtcdProcesses(free_places(members),
                      [](std::size_t, const std::vector<std::string>& command) {
                        return std::make_unique<ChildProcess>(command, "GOMAXPROCS=2");
                      }) {}
  EtcdProcesses(std::vector<Place> places, const Start& start) : places_(std::move(places)) {
    for (std::size_t i = 0; i < places_.size(); ++i) {
      processes_.push_back(start(i, command(i)));
    }
  }

  [[nodiscard]] EtcdLocation location() const {
    EtcdLocation location{.cluster = "test"};
    for (const Place& place : places_) {
      location.members.push_back(place.clients);
    }
    return location;
  }
  [[nodiscard]] std::string url() const {
    std::vector<std::string> members;
    for (const Place& place : places_) {
      members.push_back(comm::to_text(place.clients));
    }
    return fmt::format("etcd://{}/test", fmt::join(members, ","));
  }
  void wait_until_ready() const {
    (void)Etcd(location().members).get("anything", comm::deadline_in(kSoon));
  }

  /// The member that the others follow.
  [[nodiscard]] std::size_t leader() const {
    const comm::Deadline deadline = comm::deadline_in(kSoon);
    while (!comm::passed(deadline)) {
      for (std::size_t i = 0; i < places_.size(); ++i) {
        if (is_leader(places_[i].clients)) {
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

  static bool is_leader(const comm::Address& member) {
    try {
      const Json status = Json::parse(
          http_post(member, "/v3/maintenance/status", "{}", comm::deadline_in({5})).body);
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
    return {kEtcdProgram,
            fmt::format("--name=m{}", i),
            fmt::format("--data-dir={}/m{}", folder_.path(), i),
            "--listen-client-urls=" + url(places_[i].clients),
            "--advertise-client-urls=" + url(places_[i].clients),
            "--listen-peer-urls=" + url(places_[i].peers),
            "--initial-advertise-peer-urls=" + url(places_[i].peers),
            fmt::format("--initial-cluster={}", fmt::join(cluster, ",")),
            "--logger=zap",
            fmt::format("--log-outputs={}/m{}.log", folder_.path(), i)};
  }

  TemporaryFolder folder_;
  std::vector<Place> places_;
  std::vector<std::unique_ptr<ChildProcess>> processes_;
};

}  // namespace trireme::ps
