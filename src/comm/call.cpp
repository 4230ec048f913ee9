// The names of a call's fields, and the variants with counts.
#include <array>
#include <utility>

#include <fmt/format.h>

#include "base/indexed_vector.h"
#include "base/text.h"
#include "comm/transport/transport.h"
#include "trireme/comm.h"
#include "trireme/comm_call.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr std::array<std::pair<Reduction, std::string_view>, 8> kReductions{{
    {Reduction::Sum, "sum"},
    {Reduction::Product, "product"},
    {Reduction::Min, "min"},
    {Reduction::Max, "max"},
    {Reduction::Average, "average"},
    {Reduction::BitAnd, "and"},
    {Reduction::BitOr, "or"},
    {Reduction::BitXor, "xor"},
}};

constexpr std::array<std::pair<CommFault, std::string_view>, 7> kFaults{{
    {CommFault::Mismatch, "called something else"},
    {CommFault::Died, "died"},
    {CommFault::Stopped, "stopped"},
    {CommFault::Left, "left the world"},
    {CommFault::Late, "did not join in time"},
    {CommFault::Corrupt, "sent damaged data"},
    {CommFault::Dead, "gave up"},
}};

constexpr std::array<std::pair<WorldOptions::Checksums, std::string_view>, 3> kChecksums{{
    {WorldOptions::Checksums::Off, "off"},
    {WorldOptions::Checksums::Network, "network"},
    {WorldOptions::Checksums::All, "all"},
}};

constexpr std::array<std::pair<TransportKind, std::string_view>, 5> kTransports{{
    {TransportKind::Automatic, "automatic"},
    {TransportKind::InProcess, "in-process"},
    {TransportKind::SharedMemory, "shm"},
    {TransportKind::Tcp, "tcp"},
    {TransportKind::Ucx, "ucx"},
}};

template <class Table, class Value>
std::string_view look_up(const Table& table, Value value) {
  for (const auto& [key, text] : table) {
    if (key == value) {
      return text;
    }
  }
  return "?";
}

template <class Table>
auto look_up_name(const Table& table, std::string_view text, std::string_view what) {
  std::vector<std::string> names;
  for (const auto& [value, known] : table) {
    if (known == text) {
      return value;
    }
    names.emplace_back(known);
  }
  throw Error(ErrorKind::Usage,
              fmt::format("unknown {} '{}'; use {}", what, text, list_words(names, "or")));
}

}  // namespace

std::string_view to_text(Reduction reduction) {
  return look_up(kReductions, reduction);
}
Reduction parse_reduction(std::string_view text) {
  return look_up_name(kReductions, text, "reduction");
}

std::string_view to_text(CommFault fault) {
  return look_up(kFaults, fault);
}
std::string_view to_text(WorldOptions::Checksums checksums) {
  return look_up(kChecksums, checksums);
}

std::string_view to_text(TransportKind kind) {
  return look_up(kTransports, kind);
}
std::span<const TransportKind> all_transports() {
  static constexpr std::array kAll{TransportKind::SharedMemory, TransportKind::Tcp,
                                   TransportKind::Ucx, TransportKind::InProcess};
  return kAll;
}
TransportKind parse_transport(std::string_view text) {
  return look_up_name(kTransports, text, "transport");
}
bool is_built(TransportKind kind) {
  return kind != TransportKind::Ucx || comm::has_ucx();
}
void restore_signal_handlers() {
  comm::restore_ucx_signal_handlers();
}

std::string_view to_text(const Method& method) {
  if (method.kind == Method::Kind::Scheduled) {
    return to_text(method.algorithm);
  }
  return method.kind == Method::Kind::Direct ? "direct" : "automatic";
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
  std::vector<std::int64_t> counts(static_cast<std::size_t>(ranks), elements / ranks);
  for (std::int64_t r = 0; r < elements % ranks; ++r) {
    ++counts[position_of(r)];
  }
  return counts;
}

}  // namespace trireme
