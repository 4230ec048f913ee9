// The loops for machines other than x86: 16-byte compiler vectors, no streaming stores.
#include <array>

#include "comm/kernels/loop_bodies.h"
#include "comm/kernels/soft_f16.h"

namespace trireme::comm {
namespace {

struct Portable {
  static constexpr std::size_t kVectorBytes = 16;
  using Raw = Vector<std::uint32_t, kVectorBytes>;

  static void stream(std::byte* to, Raw value) { store<Portable>(to, value); }
  static void fence() {}
  static TwoVectors<kVectorBytes> widen_f16(Raw raw) { return soft_widen_f16<kVectorBytes>(raw); }
  static Raw narrow_f16(const TwoVectors<kVectorBytes>& wide) {
    return soft_narrow_f16<kVectorBytes>(wide);
  }
};

}  // namespace

constinit const Loops kBaselineLoops = loops_of<Portable>("baseline");

std::span<const Loops* const> available_loops() {
  static constexpr std::array<const Loops*, 1> kAll{&kBaselineLoops};
  return kAll;
}

}  // namespace trireme::comm
