// Call: one collective operation on buffers, as a value. Make it with allreduce(…), broadcast(…), …
// and pass it to Group::run or Group::start.
//
// Buffers are spans owned by the caller; they must live until the call completes. An input and an
// output are either the same memory ("in place", see each function) or do not overlap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/collective.h"
#include "trireme/schedule.h"
#include "trireme/tensor.h"

namespace trireme {

/// How the values of several ranks are combined. Average is the sum divided by the number of ranks.
/// The bitwise ones are for integers. f16 and bf16 accumulate in f32 and round once.
enum class Reduction : std::uint8_t { Sum, Product, Min, Max, Average, BitAnd, BitOr, BitXor };
[[nodiscard]] std::string_view to_text(Reduction reduction);
/// Throws Error(Usage) that lists the names.
[[nodiscard]] Reduction parse_reduction(std::string_view text);

/// A user-defined reduction: associative and commutative. All ranks must pass the same name.
struct UserReduction {
  std::string name;
  /// into[i] becomes into[i] (+) from[i], for `count` elements of the call's dtype.
  std::function<void(const void* from, void* into, std::int64_t count)> combine;
};

/// In which order contributions are combined.
enum class Order : std::uint8_t {
  /// Any order. All ranks get the same bits (except with naive and whole-ring); another algorithm may return others.
  Any,
  /// One balanced tree over the ranks 0, 1, …: the same bits for every algorithm, transport and placement of ranks on
  /// hosts.
  Fixed,
};
[[nodiscard]] std::string_view to_text(Order order);

/// How a call is executed: chosen by predicted time, or requested.
struct Method {
  enum class Kind : std::uint8_t { Automatic, Direct, Scheduled } kind = Kind::Automatic;
  Algorithm algorithm = Algorithm::Ring;  ///< if Scheduled

  /// Reads and writes peers' memory; only for groups on one host.
  [[nodiscard]] static Method direct() { return {Kind::Direct, {}}; }
  [[nodiscard]] static Method scheduled(Algorithm algorithm) {
    return {Kind::Scheduled, algorithm};
  }
  friend bool operator==(const Method&, const Method&) = default;
};
/// "automatic", "direct", or the algorithm's name.
[[nodiscard]] std::string_view to_text(const Method& method);
/// "automatic", "direct", "scheduled".
[[nodiscard]] std::string_view to_text(Method::Kind kind);
/// Throws Error(Usage) that lists the names.
[[nodiscard]] Method parse_method(std::string_view text);

struct CallOptions {
  Reduction reduction = Reduction::Sum;
  /// Instead of `reduction`; must live until the call completes.
  const UserReduction* user = nullptr;
  Order order = Order::Any;
  Method method{};
  const char* site = "";  ///< TRIREME_HERE, for messages; a string with static lifetime
};

/// "file.cpp:12", to pass as CallOptions::site.
#define TRIREME_TEXT_OF(x) #x
#define TRIREME_TEXT(x) TRIREME_TEXT_OF(x)
#define TRIREME_HERE __FILE__ ":" TRIREME_TEXT(__LINE__)

/// Created by the functions below.
struct Call {
  Operation operation = Operation::Barrier;
  DType dtype = DType::U8;
  Rank root = 0;
  std::span<const std::byte> input{};
  std::span<std::byte> output{};
  /// Elements in each rank's block (scatter, gather, all-gather, reduce-scatter), or that this rank
  /// sends to each (all-to-all). Empty: all blocks are equal.
  std::vector<std::int64_t> counts{};
  /// All-to-all with counts: elements that this rank receives from each.
  std::vector<std::int64_t> receive_counts{};
  CallOptions options{};
};

namespace detail {
template <class T>
Call make_call(Operation operation, std::span<const T> input, std::span<T> output, Rank root,
               const CallOptions& options) {
  return {.operation = operation,
          .dtype = kDTypeOf<T>,
          .root = root,
          .input = std::as_bytes(input),
          .output = std::as_writable_bytes(output),
          .options = options};
}
}  // namespace detail

/// Every rank gets the combination of all inputs.
template <class T>
Call allreduce(std::span<const T> input, std::span<T> output, const CallOptions& options = {}) {
  return detail::make_call<T>(Operation::Allreduce, input, output, 0, options);
}
/// In place.
template <class T>
Call allreduce(std::span<T> buffer, const CallOptions& options = {}) {
  return detail::make_call<T>(Operation::Allreduce, buffer, buffer, 0, options);
}

/// The root gets the combination of all inputs; elsewhere `output` is ignored. In place at the
/// root: the same span twice.
template <class T>
Call reduce(std::span<const T> input, std::span<T> output, Rank root,
            const CallOptions& options = {}) {
  return detail::make_call<T>(Operation::Reduce, input, output, root, options);
}

/// Every rank's buffer becomes a copy of the root's.
template <class T>
Call broadcast(std::span<T> buffer, Rank root, const CallOptions& options = {}) {
  return detail::make_call<T>(Operation::Broadcast, buffer, buffer, root, options);
}

/// Rank r gets block r of the root's input; elsewhere `input` is ignored. In place at the
/// root: `output` is its block of `input`.
template <class T>
Call scatter(std::span<const T> input, std::span<T> output, Rank root,
             const CallOptions& options = {}) {
  return detail::make_call<T>(Operation::Scatter, input, output, root, options);
}

/// The root gets all inputs, in rank order; elsewhere `output` is ignored. In place at the root:
/// `input` is its block of `output`.
template <class T>
Call gather(std::span<const T> input, std::span<T> output, Rank root,
            const CallOptions& options = {}) {
  return detail::make_call<T>(Operation::Gather, input, output, root, options);
}

/// Every rank gets all inputs, in rank order. In place: `input` is this rank's block of `output`.
template <class T>
Call allgather(std::span<const T> input, std::span<T> output, const CallOptions& options = {}) {
  return detail::make_call<T>(Operation::Allgather, input, output, 0, options);
}

/// Rank r gets block r of the combination of all inputs. In place: `output` is this rank's block of
/// `input`.
template <class T>
Call reduce_scatter(std::span<const T> input, std::span<T> output,
                    const CallOptions& options = {}) {
  return detail::make_call<T>(Operation::ReduceScatter, input, output, 0, options);
}

/// Block d of rank s's input becomes block s of rank d's output. In place: the same span twice.
template <class T>
Call alltoall(std::span<const T> input, std::span<T> output, const CallOptions& options = {}) {
  return detail::make_call<T>(Operation::Alltoall, input, output, 0, options);
}

/// The same call with blocks of these sizes, in elements, by rank; all ranks pass the same counts.
/// For scatter, gather, all-gather and reduce-scatter.
[[nodiscard]] Call with_counts(Call call, std::vector<std::int64_t> counts);
/// The same all-to-all with blocks of different sizes: the elements that this rank sends to each,
/// and receives from each. Not in place.
[[nodiscard]] Call with_counts(Call call, std::vector<std::int64_t> send,
                               std::vector<std::int64_t> receive);

/// How `elements` are split evenly over `ranks`: sizes differ by at most one, the longer ones
/// first.
[[nodiscard]] std::vector<std::int64_t> even_counts(std::int64_t elements, Rank ranks);

}  // namespace trireme
