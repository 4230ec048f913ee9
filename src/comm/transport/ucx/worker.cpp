#include "comm/transport/ucx/worker.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <poll.h>
#include <sys/eventfd.h>

#include "base/text.h"
#include "comm/net/secret.h"
#include "comm/wire/stream.h"
#include "trireme/error.h"

namespace trireme::comm {
namespace {

/// A piece of a message and its header fit into one parcel.
constexpr std::size_t kParcelBytes = (std::size_t{256} << 10) + 64;

void require(ucs_status_t status, std::string_view what) {
  if (status != UCS_OK) {
    throw Error(ErrorKind::System, fmt::format("{}: {}", what, ucs_status_string(status)));
  }
}

/// The bytes that distinguish two addresses of the same family.
std::span<const std::byte> address_bytes(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    return std::as_bytes(std::span(&reinterpret_cast<const sockaddr_in&>(address).sin_addr, 1));
  }
  if (address.sa_family == AF_INET6) {
    return std::as_bytes(std::span(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr, 1));
  }
  return {};
}

bool is_same_host(const sockaddr& a, const sockaddr& b) {
  return a.sa_family == b.sa_family && !address_bytes(a).empty() &&
         std::ranges::equal(address_bytes(a), address_bytes(b));
}

/// The network interface that has this address: "lo" for 127.0.0.1.
std::string interface_of(const std::string& address) {
  addrinfo* found = nullptr;
  if (const int problem = getaddrinfo(address.c_str(), nullptr, nullptr, &found); problem != 0) {
    throw Error(ErrorKind::System,
                fmt::format("cannot look up '{}': {}", address, gai_strerror(problem)));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> wanted(found, freeaddrinfo);
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) {
    throw_system("cannot list the network interfaces", errno);
  }
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> interfaces(list, freeifaddrs);
  for (const ifaddrs* one = interfaces.get(); one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr != nullptr && is_same_host(*one->ifa_addr, *wanted->ai_addr)) {
      return one->ifa_name;
    }
  }
  throw Error(ErrorKind::System,
              fmt::format("no network interface of this machine has the address {} "
                          "(WorldOptions::bind)",
                          address));
}

/// UCX's settings, from its variables and files.
class Settings {
 public:
  Settings() { require(ucp_config_read(nullptr, nullptr, &config_), "cannot read UCX's settings"); }
  ~Settings() { ucp_config_release(config_); }
  Settings(const Settings&) = delete;
  Settings& operator=(const Settings&) = delete;

  [[nodiscard]] const ucp_config_t* get() const { return config_; }

  /// Whether the setting still has UCX's default.
  [[nodiscard]] bool is_open(std::string_view name, std::string_view standard = "all") const {
    return fmt::format("\n{}", text()).find(fmt::format("\nUCX_{}={}\n", name, standard)) !=
           std::string::npos;
  }
  void set(const std::string& name, const std::string& value) {
    require(ucp_config_modify(config_, name.c_str(), value.c_str()),
            fmt::format("cannot set UCX_{} to {}", name, value));
  }

 private:
  /// UCX_NAME=VALUE, a line each. UCX has no other query.
  [[nodiscard]] std::string text() const {
    char* memory = nullptr;
    std::size_t length = 0;
    FILE* file = open_memstream(&memory, &length);
    if (file == nullptr) {
      throw_system("cannot print UCX's settings", errno);
    }
    ucp_config_print(config_, file, nullptr, UCS_CONFIG_PRINT_CONFIG);
    std::fclose(file);
    std::string all(memory, length);
    std::free(memory);  // NOLINT(cppcoreguidelines-no-malloc): open_memstream's
    return all;
  }

  ucp_config_t* config_ = nullptr;
};

/// Unless the user sets otherwise: only TCP on the interface with this address.
ucp_context_h make_context(const std::string& bind) {
  Settings settings;
  if (settings.is_open("NET_DEVICES")) {
    settings.set("NET_DEVICES", interface_of(bind));
    if (settings.is_open("TLS")) {
      settings.set("TLS", "tcp");
    }
  }
  // UCX 1.13 fails an assertion, and aborts, if a peer resets its connection while UCX sends from the caller's memory:
  // it completes a request again that it has completed already.
  if (settings.is_open("ZCOPY_THRESH", "auto")) {
    settings.set("ZCOPY_THRESH", "inf");
  }
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = UCP_FEATURE_STREAM | UCP_FEATURE_WAKEUP;
  ucp_context_h context = nullptr;
  require(ucp_init(&params, settings.get(), &context), "cannot start UCX");
  return context;
}

ucp_worker_h make_worker(ucp_context_h context) {
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  ucp_worker_h worker = nullptr;
  const ucs_status_t status = ucp_worker_create(context, &params, &worker);
  if (status != UCS_OK) {
    ucp_cleanup(context);
    require(status, "cannot create a UCX worker");
  }
  return worker;
}

/// The reverse of to_hex(); nothing if it is invalid.
std::vector<std::byte> from_hex(std::string_view hex) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    unsigned value = 0;
    const auto [end, problem] = std::from_chars(&hex[i], &hex[i] + 2, value, 16);
    if (problem != std::errc{} || end != &hex[i] + 2) {
      return {};
    }
    bytes.push_back(static_cast<std::byte>(value));
  }
  return bytes;
}

constexpr std::string_view kPrefix = "ucx:";

}  // namespace

UcxWorker::UcxWorker(const std::string& bind)
    : context_(make_context(bind)),
      worker_(make_worker(context_)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  const ucs_status_t status = ucp_worker_get_efd(worker_, &events_);
  if (status != UCS_OK || !wake_.valid()) {
    const int number = errno;
    ucp_worker_destroy(worker_);
    ucp_cleanup(context_);
    require(status, "cannot wait for UCX");
    throw_system("cannot make an event", number);
  }
}

UcxWorker::~UcxWorker() {
  MutexLock lock(mutex_);
  ucp_worker_destroy(worker_);
  ucp_cleanup(context_);
}

std::string UcxWorker::address() {
  MutexLock lock(mutex_);
  ucp_address_t* address = nullptr;
  std::size_t length = 0;
  require(ucp_worker_get_address(worker_, &address, &length), "cannot get UCX's address");
  std::string text(kPrefix);
  text += to_hex(std::as_bytes(std::span(reinterpret_cast<const char*>(address), length)));
  ucp_worker_release_address(worker_, address);
  return text;
}

void UcxWorker::poll(std::chrono::milliseconds at_most) {
  const bool may_sleep = at_most.count() > 0;
  {
    MutexLock lock(mutex_);
    if (!std::exchange(is_wanted_, false) && parcels_out_ == 0 && !may_sleep) {
      return;
    }
    // The caller may have waited for this progress. Armed: later arrivals make `events_` readable, unless something has
    // arrived already.
    if (work() || !may_sleep || ucp_worker_arm(worker_) != UCS_OK) {
      return;
    }
  }
  std::array<pollfd, 2> fds{{{events_, POLLIN, 0}, {wake_.get(), POLLIN, 0}}};
  ::poll(fds.data(), fds.size(), static_cast<int>(at_most.count()));
  if ((fds[1].revents & POLLIN) != 0) {
    eventfd_t number = 0;
    eventfd_read(wake_.get(), &number);
  }
  MutexLock lock(mutex_);
  work();
}

/// True if something happened. Fetches arrived data from UCX immediately: it discards data of an endpoint that breaks,
/// and reports the end of a connection later than the bytes before it.
bool UcxWorker::work() {
  const bool moved = ucp_worker_progress(worker_) != 0;
  std::array<ucp_stream_poll_ep_t, 16> ready{};
  for (;;) {
    const ssize_t count = ucp_stream_worker_poll(worker_, ready.data(), ready.size(), 0);
    for (ssize_t i = 0; i < count; ++i) {
      auto* endpoint = static_cast<UcxEndpoint*>(ready[i].user_data);
      if (endpoint != nullptr) {                 // otherwise the peer was faster than this side
        endpoint->worker_.mutex_.assume_held();  // this one's
        endpoint->collect();
      }
    }
    if (count < static_cast<ssize_t>(ready.size())) {
      return moved || count > 0;
    }
  }
}

void UcxWorker::wake() {
  eventfd_write(wake_.get(), 1);
}

UcxEndpoint::UcxEndpoint(UcxWorker& worker, const std::string& address) : worker_(worker) {
  std::vector<std::byte> bytes;
  if (const std::string_view text = address; text.starts_with(kPrefix)) {
    bytes = from_hex(text.substr(kPrefix.size()));
  }
  if (bytes.empty()) {
    throw Error(ErrorKind::Peer, fmt::format("invalid UCX address '{}'; do all ranks use the same "
                                             "transport?",
                                             address));
  }
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER | UCP_EP_PARAM_FIELD_USER_DATA;
  params.address = reinterpret_cast<const ucp_address_t*>(bytes.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler = {.cb = on_error, .arg = this};
  params.user_data = this;
  MutexLock lock(worker_.mutex_);
  for (Parcel& one : parcels_) {
    one.worker = &worker_;
  }
  const ucs_status_t status = ucp_ep_create(worker_.worker_, &params, &handle_);
  if (status != UCS_OK) {
    throw Error(ErrorKind::Peer,
                fmt::format("UCX does not reach it: {}", ucs_status_string(status)));
  }
  collect();
}

/// Forced, without contacting the peer, which may be dead. UCX returns all parcels.
UcxEndpoint::~UcxEndpoint() {
  constexpr Seconds kPatience{1};
  MutexLock lock(worker_.mutex_);
  while (!parts_.empty()) {
    drop_first_part();
  }
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  void* closing = ucp_ep_close_nbx(handle_, &param);
  if (closing == nullptr || UCS_PTR_IS_ERR(closing)) {
    return;
  }
  const Deadline give_up = deadline_in(kPatience);
  while (ucp_request_check_status(closing) == UCS_INPROGRESS && !passed(give_up)) {
    worker_.work();
  }
  ucp_request_free(closing);
}

std::size_t UcxEndpoint::write(std::span<const std::byte> head, std::span<const std::byte> body) {
  MutexLock lock(worker_.mutex_);
  if (status_ != UCS_OK) {
    throw Error(ErrorKind::Peer,
                fmt::format("its connection broke: {}", ucs_status_string(status_)));
  }
  Parcel* parcel = free_parcel();
  if (parcel == nullptr) {
    return 0;
  }
  const std::size_t first = std::min(head.size(), kParcelBytes);
  const std::size_t second = std::min(body.size(), kParcelBytes - first);
  if (first + second == 0) {
    return 0;
  }
  std::copy_n(head.begin(), first, parcel->bytes.get());
  std::copy_n(body.begin(), second, parcel->bytes.get() + first);
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.cb.send = on_sent;
  param.user_data = parcel;
  void* request = ucp_stream_send_nbx(handle_, parcel->bytes.get(), first + second, &param);
  if (UCS_PTR_IS_ERR(request)) {
    throw Error(ErrorKind::Peer, fmt::format("its connection broke: {}",
                                             ucs_status_string(UCS_PTR_STATUS(request))));
  }
  parcel->busy = request != nullptr;  // nullptr: already copied
  worker_.parcels_out_ += parcel->busy ? 1 : 0;
  worker_.is_wanted_ = true;
  return first + second;
}

UcxEndpoint::Parcel* UcxEndpoint::free_parcel() {
  const auto parcel = std::ranges::find(parcels_, false, &Parcel::busy);
  if (parcel == parcels_.end()) {
    return nullptr;
  }
  if (!parcel->bytes) {
    parcel->bytes = std::make_unique_for_overwrite<std::byte[]>(kParcelBytes);
  }
  return &*parcel;
}

std::size_t UcxEndpoint::read(std::span<std::byte> into) {
  MutexLock lock(worker_.mutex_);
  std::size_t done = 0;
  while (done < into.size() && !parts_.empty()) {
    std::span<const std::byte>& unread = parts_.front().unread;
    const std::size_t length = std::min(into.size() - done, unread.size());
    std::copy_n(unread.begin(), length, into.begin() + static_cast<std::ptrdiff_t>(done));
    unread = unread.subspan(length);
    done += length;
    if (unread.empty()) {
      drop_first_part();
    }
  }
  worker_.is_wanted_ = worker_.is_wanted_ || done < into.size();
  if (done == 0 && !into.empty() && status_ != UCS_OK) {
    throw Closed(fmt::format("its connection closed: {}", ucs_status_string(status_)));
  }
  return done;
}

/// Takes what has arrived from UCX.
void UcxEndpoint::collect() {
  for (;;) {
    std::size_t length = 0;
    void* memory = ucp_stream_recv_data_nb(handle_, &length);
    if (memory == nullptr || UCS_PTR_IS_ERR(memory)) {
      return;  // on_error() reports errors, too
    }
    parts_.push_back({memory, {static_cast<const std::byte*>(memory), length}});
  }
}

void UcxEndpoint::drop_first_part() {
  ucp_stream_data_release(handle_, parts_.front().memory);
  parts_.pop_front();
}

void UcxEndpoint::flush(Deadline deadline) {
  MutexLock lock(worker_.mutex_);
  if (status_ != UCS_OK) {
    return;
  }
  const ucp_request_param_t param{};
  void* flushing = ucp_ep_flush_nbx(handle_, &param);
  if (flushing == nullptr || UCS_PTR_IS_ERR(flushing)) {
    return;
  }
  while (ucp_request_check_status(flushing) == UCS_INPROGRESS && !passed(deadline)) {
    worker_.work();
  }
  ucp_request_free(flushing);
}

void UcxEndpoint::on_sent(void* request, ucs_status_t /*status*/, void* parcel) {
  auto* self = static_cast<Parcel*>(parcel);
  self->worker->mutex_.assume_held();  // by the thread that called UCX
  self->busy = false;
  --self->worker->parcels_out_;
  ucp_request_free(request);
}

void UcxEndpoint::on_error(void* endpoint, ucp_ep_h /*handle*/, ucs_status_t status) {
  auto* self = static_cast<UcxEndpoint*>(endpoint);
  self->worker_.mutex_.assume_held();  // by the thread that called UCX
  self->status_ = status;
}

}  // namespace trireme::comm
