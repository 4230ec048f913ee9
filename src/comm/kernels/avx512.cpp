// The loops for x86 with AVX-512 (F, BW, DQ, VL). Compiled with flags for these: nothing here runs
// unless available_loops has found that the machine supports them.
#include <immintrin.h>

#include "comm/kernels/loop_bodies.h"

namespace trireme::comm {
namespace {

struct Avx512 {
  static constexpr std::size_t kVectorBytes = 64;
  using Raw = Vector<std::uint32_t, kVectorBytes>;
  using Floats = Vector<float, kVectorBytes>;

  static void stream(std::byte* to, Raw value) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to), __builtin_bit_cast(__m512i, value));
  }
  static void fence() { _mm_sfence(); }

  static TwoVectors<kVectorBytes> widen_f16(Raw raw) {
    const auto halves = __builtin_bit_cast(Halves, raw);
    return {widen(halves.first), widen(halves.second)};
  }
  static Raw narrow_f16(const TwoVectors<kVectorBytes>& wide) {
    return __builtin_bit_cast(Raw, Halves{narrow(wide.first), narrow(wide.second)});
  }

 private:
  struct Halves {
    __m256i first;
    __m256i second;
  };

  // With a mask of all lanes: without one, GCC 12 wrongly warns of an uninitialized vector (GCC bug
  // 105593).
  static constexpr __mmask16 kAllLanes = 0xffff;

  static Floats widen(__m256i halves) {
    return __builtin_bit_cast(Floats, _mm512_maskz_cvtph_ps(kAllLanes, halves));
  }
  static __m256i narrow(Floats floats) {
    return _mm512_maskz_cvtps_ph(kAllLanes, __builtin_bit_cast(__m512, floats),
                                 _MM_FROUND_TO_NEAREST_INT);
  }
};

}  // namespace

constinit const Loops kAvx512Loops = loops_of<Avx512>("avx512");

}  // namespace trireme::comm
