// The loops for x86 with AVX2 and F16C. Compiled with -mavx2 -mf16c: nothing here runs unless
// available_loops has found that the machine supports them.
#include <immintrin.h>

#include "comm/kernels/loop_bodies.h"

namespace trireme::comm {
namespace {

struct Avx2 {
  static constexpr std::size_t kVectorBytes = 32;
  using Raw = Vector<std::uint32_t, kVectorBytes>;
  using Floats = Vector<float, kVectorBytes>;

  static void stream(std::byte* to, Raw value) {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to), __builtin_bit_cast(__m256i, value));
  }
  static void fence() { _mm_sfence(); }

  static TwoVectors<kVectorBytes> widen_f16(Raw raw) {
    const auto halves = __builtin_bit_cast(__m256i, raw);
    return {widen(_mm256_castsi256_si128(halves)), widen(_mm256_extracti128_si256(halves, 1))};
  }
  static Raw narrow_f16(const TwoVectors<kVectorBytes>& wide) {
    return __builtin_bit_cast(Raw, _mm256_set_m128i(narrow(wide.second), narrow(wide.first)));
  }

 private:
  static Floats widen(__m128i halves) {
    return __builtin_bit_cast(Floats, _mm256_cvtph_ps(halves));
  }
  static __m128i narrow(Floats floats) {
    return _mm256_cvtps_ph(__builtin_bit_cast(__m256, floats), _MM_FROUND_TO_NEAREST_INT);
  }
};

}  // namespace

constinit const Loops kAvx2Loops = loops_of<Avx2>("avx2");

}  // namespace trireme::comm
