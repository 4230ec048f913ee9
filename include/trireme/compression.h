// Compression: in how few bytes a gradient is sent where ranks along `data` each have a part of it. What is not sent
// stays with the rank and is added to its gradient in the next step, so that nothing is lost, only late. Plain data;
// any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace trireme {

/// Bytes that a rank sends of n elements in f32 along p ranks, where the uncompressed takes 8 n (p-1)/p:
///
///   top-k   the share of elements farthest from 0, with their indices      8 k (p-1)
///   sign    a bit for each sign, and their mean distance from 0            (n/8 + 4) (p-1)
///   ternary two bits for each: above 0, below, or near it                  (n/4 + 4) (p-1)
///   int8    whole multiples, up to 127, of a scale                         (n + 4) (p-1)
///   fp16    in half precision, added up so                                 4 n (p-1)/p
///   power   of a matrix [a, b], the product of [a, r] and [r, b]           8 r (a + b) (p-1)/p
///
/// Top-k, sign, ternary and int8 cannot be added up packed: each rank gets all others' and adds them up itself, so that
/// their bytes grow with p. Power is PowerSGD (Vogels, Karimireddy and Jaggi, NeurIPS 2019): one step of power iteration,
/// from the last step's result.
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
  double share = 0.01;  ///< TopK: of the elements, above 0 and at most 1
  int rank = 4;         ///< Power: of the product, 1 at least

  /// Gradients with fewer elements are sent as they are: biases, norms.
  static constexpr std::int64_t kLeastElements = 1024;

  [[nodiscard]] bool any() const { return method != Method::None; }
  friend bool operator==(const Compression&, const Compression&) = default;
};

/// "none", "top-k:0.01", "sign", "ternary", "int8", "fp16", "power:4"; "top-k" and "power" alone are these. parse_compression
/// throws Error(Usage) that says what could be.
[[nodiscard]] std::string to_text(const Compression& compression);
[[nodiscard]] Compression parse_compression(std::string_view text);

}  // namespace trireme
