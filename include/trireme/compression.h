// Compression: encodes a gradient in fewer bytes when each rank along `data` holds a term of it. A rank keeps the
// residual that it did not send and adds it to its next gradient: nothing is lost, only delayed. Plain data; any
// thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace trireme {

/// Bytes that a rank sends for n elements in f32 over p ranks, where uncompressed takes 8 n (p-1)/p:
///
///   top-k   the given share of elements, largest magnitudes, with indices  8 k (p-1)
///   sign    one bit per sign, and the mean magnitude                       (n/8 + 4) (p-1)
///   ternary two bits each: positive, negative or near 0                    (n/4 + 4) (p-1)
///   int8    integer multiples, up to 127, of a scale                       (n + 4) (p-1)
///   fp16    half precision, summed in half precision                       4 n (p-1)/p
///   power   of a matrix [a, b], the product of [a, r] and [r, b]           8 r (a + b) (p-1)/p
///
/// Top-k, sign, ternary and int8 cannot be summed in packed form: each rank receives the packed gradients of all others
/// and sums them itself, so that their bytes grow with p. Power is PowerSGD (Vogels, Karimireddy and Jaggi, NeurIPS
/// 2019): one step of power iteration, starting from the last step's result.
struct Compression {
  enum class Method : std::uint8_t {
    None,
    TopK,
    Sign,
    Ternary,
    Int8,
    Fp16,
    Power
  } method = Method::None;
  double share = 0.01;  ///< TopK: share of the elements, in (0, 1]
  int rank = 4;         ///< Power: rank of the product, at least 1

  /// Smaller gradients, such as biases and norms, are sent uncompressed.
  static constexpr std::int64_t kMinElements = 1024;

  [[nodiscard]] bool any() const { return method != Method::None; }
  friend bool operator==(const Compression&, const Compression&) = default;
};
/// "none", "top-k", …
[[nodiscard]] std::string_view to_text(Compression::Method method);

/// "none", "top-k:0.01", "sign", "ternary", "int8", "fp16", "power:4"; "top-k" and "power" alone mean these values.
/// parse_compression throws Error(Usage) listing the choices.
[[nodiscard]] std::string to_text(const Compression& compression);
[[nodiscard]] Compression parse_compression(std::string_view text);

}  // namespace trireme
