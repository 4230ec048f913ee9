// The names of a call's fields, and the variants with counts.
#include <array>

#include "base/enum_names.h"
#include "comm/transport/transport.h"
#include "trireme/comm.h"
#include "trireme/comm_call.h"

namespace trireme {
namespace {

constexpr auto kReductions =
    enum_names<Reduction>("sum", "product", "min", "max", "average", "and", "or", "xor");
constexpr auto kTransports =
    enum_names<TransportKind>("automatic", "in-process", "shm", "tcp", "ucx");

}  // namespace

std::string_view to_text(Reduction reduction) {
  return kReductions[reduction];
}
Reduction parse_reduction(std::string_view text) {
  return kReductions.parse("reduction", text);
}

std::string_view to_text(CommFault fault) {
  static constexpr auto kNames =
      enum_names<CommFault>("called something else", "died", "stopped", "left the world",
                            "did not join in time", "sent damaged data", "gave up");
  return kNames[fault];
}
std::string_view to_text(WorldOptions::Checksums checksums) {
  static constexpr auto kNames = enum_names<WorldOptions::Checksums>("off", "network", "all");
  return kNames[checksums];
}

std::string_view to_text(TransportKind kind) {
  return kTransports[kind];
}
std::span<const TransportKind> all_transports() {
  static constexpr std::array kAll{TransportKind::SharedMemory, TransportKind::Tcp,
                                   TransportKind::Ucx, TransportKind::InProcess};
  return kAll;
}
TransportKind parse_transport(std::string_view text) {
  return kTransports.parse("transport", text);
}
bool is_built(TransportKind kind) {
  return kind != TransportKind::Ucx || comm::has_ucx();
}
void restore_signal_handlers() {
  comm::restore_ucx_signal_handlers();
}

std::string_view to_text(Order order) {
  static constexpr auto kNames = enum_names<Order>("any", "fixed");
  return kNames[order];
}

std::string_view to_text(Method::Kind kind) {
  static constexpr auto kNames = enum_names<Method::Kind>("automatic", "direct", "scheduled");
  return kNames[kind];
}
std::string_view to_text(const Method& method) {
  return method.kind == Method::Kind::Scheduled ? to_text(method.algorithm) : to_text(method.kind);
}
Method parse_method(std::string_view text) {
  if (text == "direct") {
    return Method::direct();
  }
  return text == "automatic" ? Method{} : Method::scheduled(parse_algorithm(text));
}

Call with_counts(Call call, std::vector<std::int64_t> counts) {
  call.counts = std::move(counts);
  return call;
}

Call with_counts(Call call, std::vector<std::int64_t> send, std::vector<std::int64_t> receive) {
  call.counts = std::move(send);
  call.receive_counts = std::move(receive);
  return call;
}

std::vector<std::int64_t> even_counts(std::int64_t elements, Rank ranks) {
  std::vector<std::int64_t> counts(ranks, elements / ranks);
  for (std::int64_t r = 0; r < elements % ranks; ++r) {
    ++counts[r];
  }
  return counts;
}

}  // namespace trireme
