#include "comm/roster.h"

#include <array>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "base/text.h"
#include "comm/rendezvous/secret.h"
#include "trireme/error.h"

namespace trireme::comm {
namespace {

std::string claim_key(Rank rank) {
  return fmt::format("world/claim/{}", rank);
}

/// "host node1 pid 123\n" and random digits, which tell threads of one process apart.
std::string make_claim() {
  std::array<std::byte, 16> random{};
  fill_random(random);
  return fmt::format("host {} pid {}\n{}", machine_name(), getpid(), to_hex(random));
}

std::string process_of(const std::string& claim) {
  return std::string(split(claim, '\n').front());
}

[[noreturn]] void throw_taken(Rank rank, const std::string& first, const std::string& second) {
  throw Error(ErrorKind::Usage,
              fmt::format("rank {} joined twice: {} and {}; give every process its own rank", rank,
                          process_of(first), process_of(second)));
}

}  // namespace

std::string machine_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

void claim_rank(Store& store, Rank rank) {
  const std::string own = make_claim();
  const std::string holder = store.insert(claim_key(rank), own);
  if (holder != own) {
    throw_taken(rank, holder, own);
  }
}

void report_rank_taken(Store& store, Rank rank, Deadline deadline) {
  throw_taken(rank, store.get(claim_key(rank), deadline), make_claim());
}

}  // namespace trireme::comm
