// The coordinator and the servers of parameter_server.h: their state machines on event loops.
#include "trireme/parameter_server.h"

#include <filesystem>
#include <random>
#include <utility>

#include <fmt/format.h>

#include "comm/net/address.h"
#include "comm/net/secret.h"
#include "ps/host/event_loop.h"
#include "ps/protocol/coordinator.h"
#include "ps/protocol/server.h"
#include "trireme/files.h"
#include "trireme/message.h"

namespace trireme::ps {
namespace {

/// As parse_address(), but port 0 is allowed: any free one.
comm::Address parse_listen_address(const std::string& text) {
  if (!text.ends_with(":0")) {
    return comm::parse_address(text);
  }
  comm::Address address = comm::parse_address(text.substr(0, text.size() - 1) + "1");
  address.port = 0;
  return address;
}

EventLoopOptions loop_options(NodeId self, const std::string& listen, const std::string& secret,
                              Encrypt encrypt, std::function<void(const std::string&)> refused) {
  return {.reactor = {.self = self,
                      .listen = parse_listen_address(listen),
                      .secret = comm::Secret::from_text(secret),
                      .encryption =
                          encrypt == Encrypt::Yes ? comm::Encryption::Tls : comm::Encryption::None},
          .refused = std::move(refused)};
}

Incarnation random_incarnation() {
  std::random_device device;
  return (static_cast<Incarnation>(device()) << 32) | device();
}

}  // namespace

class ParameterCoordinator::Impl {
 public:
  explicit Impl(ParameterCoordinatorOptions options)
      : options_(std::move(options)),
        updates_(options_.updates ? options_.updates : std::make_shared<const UpdateRegistry>()),
        loop_(loop_options(NodeId::Coordinator, options_.listen, options_.secret, options_.encrypt,
                           options_.on_refused)),
        machine_({.shards = options_.shards,
                  .replicas = options_.replicas,
                  .min_servers = options_.min_servers,
                  .timing = timing_for(options_.lease)},
                 *updates_, micros_now(), saved_state()) {
    loop_.start({.handle = [this](const Envelope& envelope, Micros now,
                                  Outbox& out) { machine_.handle(envelope, now, out); },
                 .tick = [this](Micros now, Outbox& out) { machine_.tick(now, out); },
                 .before_sending = [this] { save_state(); }});
  }

  [[nodiscard]] std::string address() const { return loop_.address(); }

 private:
  [[nodiscard]] std::string saved_state() const {
    const bool exists =
        !options_.state_file.empty() && std::filesystem::exists(options_.state_file);
    return exists ? read_file(options_.state_file) : std::string();
  }
  void save_state() {
    if (machine_.version() != saved_version_ && !options_.state_file.empty()) {
      saved_version_ = machine_.version();
      write_file(options_.state_file, machine_.durable());
    }
  }

  ParameterCoordinatorOptions options_;
  std::shared_ptr<const UpdateRegistry> updates_;
  EventLoop loop_;
  Coordinator machine_;
  std::uint64_t saved_version_ = 0;

 public:
  void stop() { loop_.stop(); }
};

ParameterCoordinator::ParameterCoordinator(ParameterCoordinatorOptions options)
    : impl_(std::make_unique<Impl>(std::move(options))) {}

ParameterCoordinator::~ParameterCoordinator() {
  impl_->stop();
}

std::string ParameterCoordinator::address() const {
  return impl_->address();
}

class ParameterServer::Impl {
 public:
  explicit Impl(ParameterServerOptions options)
      : updates_(options.updates ? std::move(options.updates)
                                 : std::make_shared<const UpdateRegistry>()),
        loop_(loop_options(server_node(options.number), options.listen, options.secret,
                           options.encrypt, std::move(options.on_refused))),
        machine_({.id = server_node(options.number),
                  .incarnation = random_incarnation(),
                  .address = loop_.address(),
                  .timing = timing_for(options.lease)},
                 *updates_) {
    loop_.set_address(NodeId::Coordinator, options.coordinator);
    loop_.start({.handle = [this](const Envelope& envelope, Micros now,
                                  Outbox& out) { machine_.handle(envelope, now, out); },
                 .tick = [this](Micros now, Outbox& out) { machine_.tick(now, out); },
                 .addresses = [this] { return &machine_.addresses(); }});
  }

  [[nodiscard]] std::string address() const { return loop_.address(); }
  void stop() { loop_.stop(); }

 private:
  std::shared_ptr<const UpdateRegistry> updates_;
  EventLoop loop_;
  Server machine_;
};

ParameterServer::ParameterServer(ParameterServerOptions options)
    : impl_(std::make_unique<Impl>(std::move(options))) {}

ParameterServer::~ParameterServer() {
  impl_->stop();
}

std::string ParameterServer::address() const {
  return impl_->address();
}

}  // namespace trireme::ps
