#include "train/checkpoint/checksum.h"

#include <new>

#include <fmt/format.h>
#include <xxhash.h>
#if defined(__x86_64__)
#include <xxh_x86dispatch.h>  // picks the widest SIMD at run time
#endif

namespace trireme::train {
namespace {

XXH3_state_t* state_in(const std::unique_ptr<void, void (*)(void*)>& state) {
  return static_cast<XXH3_state_t*>(state.get());
}

void free_state(void* state) {
  XXH3_freeState(static_cast<XXH3_state_t*>(state));
}

}  // namespace

Checksum::Checksum() : state_(XXH3_createState(), free_state) {
  if (state_ == nullptr) {
    throw std::bad_alloc();
  }
  XXH3_64bits_reset(state_in(state_));
}

void Checksum::add(std::span<const std::byte> bytes) {
  XXH3_64bits_update(state_in(state_), bytes.data(), bytes.size());
}

std::uint64_t Checksum::value() const {
  return XXH3_64bits_digest(state_in(state_));
}

std::uint64_t checksum_of(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::string checksum_text(std::uint64_t checksum) {
  return fmt::format("{:016x}", checksum);
}

}  // namespace trireme::train
