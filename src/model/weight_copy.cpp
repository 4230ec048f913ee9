#include "model/weight_copy.h"

#include <cstring>

#include "base/check.h"

namespace trireme {
namespace {

float widened(Float16 value) {
  return to_f32(value);
}
float widened(BFloat16 value) {
  return to_f32(value);
}
float widened(float value) {
  return value;
}
double widened(double value) {
  return value;
}

template <class To, class Wide>
To narrowed(Wide value) {
  if constexpr (std::is_same_v<To, Float16>) {
    return to_f16(static_cast<float>(value));
  } else if constexpr (std::is_same_v<To, BFloat16>) {
    return to_bf16(static_cast<float>(value));
  } else {
    return static_cast<To>(value);
  }
}

template <class To, class From>
void convert(const std::byte* from, std::byte* to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    From value;
    std::memcpy(&value, from + i * sizeof value, sizeof value);
    const To result = narrowed<To>(widened(value));
    std::memcpy(to + i * sizeof result, &result, sizeof result);
  }
}

using Convert = void (*)(const std::byte* from, std::byte* to, std::size_t count);

template <std::size_t kSize>
void keep(const std::byte* from, std::byte* to, std::size_t count) {
  std::memcpy(to, from, count * kSize);
}

/// Calls `use` with a value of the C++ type.
template <class Use>
Convert with_type(DType dtype, const Use& use) {
  switch (dtype) {
    case DType::F32:
      return use(float{});
    case DType::F64:
      return use(double{});
    case DType::F16:
      return use(Float16{});
    case DType::BF16:
      return use(BFloat16{});
    default:
      TRIREME_CHECK(false, "weights are of floating point");
  }
  return nullptr;
}

Convert conversion(DType from, DType to) {
  return with_type(from, [&](auto source) {
    using From = decltype(source);
    return with_type(to, [](auto target) -> Convert {
      using To = decltype(target);
      if constexpr (std::is_same_v<From, To>) {
        return keep<sizeof(To)>;
      } else {
        return convert<To, From>;
      }
    });
  });
}

struct Walk {
  std::int64_t extent = 0;
  std::int64_t from = 0;  ///< stride
  std::int64_t to = 0;    ///< stride
};

/// Copies along dimension `depth` and those after it. `run` elements of the innermost one are contiguous.
class Copier {
 public:
  Copier(std::vector<Walk> walks, const ConstElements& from, const Elements& to)
      : walks_(std::move(walks)),
        from_(from.bytes.data()),
        to_(to.bytes.data()),
        from_size_(size_of(from.dtype).count),
        to_size_(size_of(to.dtype).count),
        convert_(conversion(from.dtype, to.dtype)) {
    while (!walks_.empty() && walks_.back().from == run_ && walks_.back().to == run_) {
      run_ *= walks_.back().extent;
      walks_.pop_back();
    }
  }

  void copy(std::int64_t from, std::int64_t to, std::size_t depth = 0) const {
    if (depth == walks_.size()) {
      convert_(from_ + from * from_size_, to_ + to * to_size_, run_);
      return;
    }
    const Walk& walk = walks_[depth];
    for (std::int64_t i = 0; i < walk.extent; ++i) {
      copy(from + i * walk.from, to + i * walk.to, depth + 1);
    }
  }

 private:
  std::vector<Walk> walks_;
  const std::byte* from_;
  std::byte* to_;
  std::int64_t from_size_;
  std::int64_t to_size_;
  Convert convert_;
  std::int64_t run_ = 1;
};

}  // namespace

void copy_to_ours(const WeightPiece& piece, const ConstElements& theirs, const Elements& ours) {
  std::vector<Walk> walks;
  walks.reserve(piece.dimensions.size());
  for (const WeightPiece::Dimension& d : piece.dimensions) {
    walks.push_back({d.extent, d.theirs, d.ours});
  }
  Copier(std::move(walks), theirs, ours).copy(piece.begin_theirs, piece.begin_ours);
}

void copy_to_theirs(const WeightPiece& piece, const ConstElements& ours, const Elements& theirs) {
  std::vector<Walk> walks;
  walks.reserve(piece.dimensions.size());
  for (const WeightPiece::Dimension& d : piece.dimensions) {
    walks.push_back({d.extent, d.ours, d.theirs});
  }
  Copier(std::move(walks), ours, theirs).copy(piece.begin_ours, piece.begin_theirs);
}

}  // namespace trireme
