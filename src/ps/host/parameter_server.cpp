// The coordinator and the servers of parameter_server.h: their state machines on event loops.
#include "trireme/parameter_server.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/cores.h"
#include "base/mutex.h"
#include "base/text.h"
#include "ps/host/coordinator_candidate.h"
#include "ps/host/coordinator_life.h"
#include "ps/host/node_options.h"
#include "ps/host/reactor_node.h"
#include "ps/membership/file_store.h"
#include "trireme/message.h"
#include "trireme/valid.h"

namespace trireme::ps {

/// The only coordinator, or a candidate.
class ParameterCoordinator::Impl {
 public:
  explicit Impl(const ParameterCoordinatorOptions& options) : file_(options.state_file) {
    if (!options.membership.empty()) {
      require(options.state_file.empty(),
              "a coordinator keeps its state in a file or in etcd, not in both");
      candidate_.emplace(options);
      return;
    }
    require(options.etcd_tls == TlsFiles{},
            "--etcd-ca, --etcd-cert and --etcd-key need --membership etcd+tls://HOST:PORT,…/NAME");
    life_.emplace(options, options.on_stopped);
    life_->start(file_);
    if (options.on_role) {
      options.on_role(CoordinatorRole::Active, life_->address());
    }
  }

  [[nodiscard]] std::string address() const {
    return candidate_ ? candidate_->address() : life_->address();
  }

 private:
  FileStore file_;
  std::optional<CoordinatorLife> life_;
  std::optional<CoordinatorCandidate> candidate_;
};

ParameterCoordinator::ParameterCoordinator(const ParameterCoordinatorOptions& options)
    : impl_(std::make_unique<Impl>(options)) {}

ParameterCoordinator::~ParameterCoordinator() = default;

std::string ParameterCoordinator::address() const {
  return impl_->address();
}

std::size_t parse_reactors(const std::string& text) {
  if (text == "auto") {
    return std::max<std::size_t>(allowed_core_ids().size(), 1);
  }
  const std::optional<std::int64_t> count = parse_integer(text);
  require(count && *count > 0,
          fmt::format("{}: expected a number above 0, or auto", in_quotes(text)));
  return static_cast<std::size_t>(*count);
}

/// Its reactors.
class ParameterServer::Impl {
 public:
  explicit Impl(ParameterServerOptions options)
      : on_refused_(std::exchange(options.on_refused, {})),
        on_stopped_(std::exchange(options.on_stopped, {})),
        server_{.options = with_callbacks(options),
                .updates = or_built_in(options.updates),
                .restored = snapshot_to_restore(options.snapshots),
                .locator = CoordinatorLocator(options.coordinator, options.etcd_tls)} {
    require_valid(options);
    for (std::size_t i = 0; i < options.reactors; ++i) {
      reactors_.push_back(std::make_unique<ReactorNode>(server_, i));
      addresses_.push_back(reactors_.back()->address());
    }
    for (const auto& reactor : reactors_) {  // all are listening
      reactor->start();
    }
  }

  [[nodiscard]] const std::vector<std::string>& addresses() const { return addresses_; }

  [[nodiscard]] bool hand_over(Seconds patience) {
    const comm::Deadline deadline = comm::deadline_in(patience);
    for (const auto& reactor : reactors_) {
      reactor->leave();
    }
    while (!std::ranges::all_of(reactors_, [](const auto& node) { return node->may_stop(); })) {
      if (comm::passed(deadline)) {
        return false;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
  }

 private:
  [[nodiscard]] ParameterServerOptions with_callbacks(ParameterServerOptions options) {
    options.on_refused = [this](const std::string& why) { report(on_refused_, why); };
    options.on_stopped = [this](const std::string& why) { report(on_stopped_, why); };
    return options;
  }
  /// From any reactor.
  void report(const std::function<void(const std::string&)>& to, const std::string& why) {
    const MutexLock lock(reporting_);
    if (to) {
      to(why);
    }
  }

  Mutex reporting_;
  std::function<void(const std::string&)> on_refused_;
  std::function<void(const std::string&)> on_stopped_;
  ServerContext server_;
  std::vector<std::unique_ptr<ReactorNode>> reactors_;
  std::vector<std::string> addresses_;
};

std::vector<std::string> problems(const ParameterServerOptions& options) {
  std::vector<std::string> found;
  if (options.number > kMaxServerNumber) {
    found.push_back(fmt::format("server number {} is out of range: use 0 to {}", options.number,
                                kMaxServerNumber));
  }
  if (options.reactors == 0 || options.reactors > kMaxReactors) {
    found.push_back(
        fmt::format("{} reactors are out of range: use 1 to {}", options.reactors, kMaxReactors));
  }
  const std::size_t port = parse_listen_address(options.listen).port;
  if (port != 0 && port + options.reactors > 65536) {
    found.push_back(
        fmt::format("{} reactors need the ports from {} on, but 65535 is the last: use "
                    "a lower port, or 0",
                    options.reactors, port));
  }
  return found;
}

ParameterServer::ParameterServer(ParameterServerOptions options)
    : impl_(std::make_unique<Impl>(std::move(options))) {}

ParameterServer::~ParameterServer() = default;

bool ParameterServer::hand_over(Seconds patience) {
  return impl_->hand_over(patience);
}

const std::vector<std::string>& ParameterServer::addresses() const {
  return impl_->addresses();
}

}  // namespace trireme::ps
