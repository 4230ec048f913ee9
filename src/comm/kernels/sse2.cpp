// The loops for any x86-64.
#include <emmintrin.h>

#include "comm/kernels/loop_bodies.h"
#include "comm/kernels/soft_f16.h"

namespace trireme::comm {
namespace {

struct Sse2 {
  static constexpr std::size_t kVectorBytes = 16;
  using Raw = Vector<std::uint32_t, kVectorBytes>;

  static void stream(std::byte* to, Raw value) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to), __builtin_bit_cast(__m128i, value));
  }
  static void fence() { _mm_sfence(); }
  static TwoVectors<kVectorBytes> widen_f16(Raw raw) { return soft_widen_f16<kVectorBytes>(raw); }
  static Raw narrow_f16(const TwoVectors<kVectorBytes>& wide) {
    return soft_narrow_f16<kVectorBytes>(wide);
  }
};

}  // namespace

constinit const Loops kBaselineLoops = loops_of<Sse2>("baseline");

}  // namespace trireme::comm
