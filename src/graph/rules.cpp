#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "base/check.h"
#include "trireme/op_rules.h"

namespace trireme::rules {

std::vector<TensorType> like_first(const Signature& s) {
  return {s.inputs.at(0)};
}

void require_float(const Signature& s, std::size_t input) {
  s.require(is_float(s.inputs.at(input).dtype),
            fmt::format("{} must be of floating point",
                        s.op->inputs[std::min(input, s.op->inputs.size() - 1)]));
}

void require_statistic(const Signature& s, std::size_t statistic, std::size_t x) {
  s.require(s.inputs.at(statistic).dtype == statistics_type(s.inputs.at(x).dtype),
            fmt::format("{} is kept in f32, or in f64 with {}", s.op->inputs.at(statistic),
                        s.op->inputs.at(x)));
}

void require_integer(const Signature& s, std::size_t input) {
  s.require(!is_float(s.inputs.at(input).dtype),
            fmt::format("{} must be of an integer type",
                        s.op->inputs[std::min(input, s.op->inputs.size() - 1)]));
}

void require_rank(const Signature& s, std::size_t input, int rank) {
  s.require(s.shape(input).rank() == rank,
            fmt::format("{} must have {} dimensions", s.op->inputs.at(input), rank));
}

void require_same_type(const Signature& s, std::size_t a, std::size_t b) {
  s.require(s.inputs.at(a) == s.inputs.at(b), fmt::format("{} and {} must have the same type",
                                                          s.op->inputs.at(a), s.op->inputs.at(b)));
}

void require_same_dtype(const Signature& s, std::size_t a, std::size_t b) {
  s.require(s.inputs.at(a).dtype == s.inputs.at(b).dtype,
            fmt::format("{} and {} must have the same element type", s.op->inputs.at(a),
                        s.op->inputs.at(b)));
}

int axis_of(const Signature& s, std::int64_t axis, int rank) {
  const std::int64_t from_front = axis < 0 ? axis + rank : axis;
  s.require(from_front >= 0 && from_front < rank,
            fmt::format("dimension {} is out of range; the rank is {}", axis, rank));
  return static_cast<int>(from_front);
}

Shape rows_of(const Shape& shape) {
  std::vector<std::int64_t> dims = shape.dims();
  dims.pop_back();
  return Shape(std::move(dims));
}

DType statistics_type(DType rows) {
  return rows == DType::F64 ? DType::F64 : DType::F32;
}

std::string letters_for(int rank) {
  std::string letters;
  for (int i = 0; i < rank; ++i) {
    letters.push_back(static_cast<char>('a' + i));
  }
  return letters;
}

Factors elementwise_factors(const Signature& s) {
  const std::string all = letters_for(s.shape(0).rank());
  Letters letters;
  for (const TensorType& input : s.inputs) {
    letters.inputs.push_back(all.substr(all.size() - input.shape.rank()));
  }
  for (const TensorType& result : s.op->infer(s)) {
    letters.outputs.push_back(all.substr(0, result.shape.rank()));
  }
  return factors_by_letters(s, letters);
}

Factors factors_by_letters(const Signature& s, const Letters& letters) {
  Factors factors;
  std::map<char, std::int32_t> numbers;
  const auto add = [&](const std::string& operand, const Shape& shape) {
    TRIREME_CHECK(static_cast<int>(operand.size()) == shape.rank(), std::string(s.op->name));
    Factors::Dims dims;
    for (int d = 0; d < shape.rank(); ++d) {
      const char letter = operand[d];
      const auto [it, is_new] =
          numbers.emplace(letter, static_cast<std::int32_t>(factors.factors.size()));
      if (is_new) {
        const bool never = letters.unshardable.find(letter) != std::string::npos;
        factors.factors.push_back(
            {shape.dim(d), never ? Factor::Split::Never : Factor::Split::Free});
      }
      dims.push_back({it->second});
    }
    return dims;
  };
  for (std::size_t k = 0; k < s.inputs.size(); ++k) {
    factors.inputs.push_back(add(letters.inputs.at(k), s.shape(k)));
  }
  const std::vector<TensorType> results = s.op->infer(s);
  for (std::size_t k = 0; k < results.size(); ++k) {
    factors.outputs.push_back(add(letters.outputs.at(k), results[k].shape));
  }
  return factors;
}

std::vector<std::int64_t> part_of_dims(const Factors::Dims& dims,
                                       std::span<const IndexRange> ranges) {
  std::vector<std::int64_t> sizes;
  sizes.reserve(dims.size());
  for (const std::vector<std::int32_t>& factors : dims) {
    std::int64_t size = 1;
    for (const std::int32_t factor : factors) {
      size *= ranges[factor].length;
    }
    sizes.push_back(size);
  }
  return sizes;
}

Attributes part_of_shape(const Signature& whole, std::span<const IndexRange> ranges) {
  Attributes attributes = *whole.attributes;
  attributes["shape"] = part_of_dims(whole.op->factors(whole).outputs.at(0), ranges);
  return attributes;
}

double bytes_of_operands(const Signature& s) {
  double bytes = 0;
  for (const TensorType& input : s.inputs) {
    bytes += static_cast<double>(size_of(input).count);
  }
  for (const TensorType& result : s.op->infer(s)) {
    bytes += static_cast<double>(size_of(result).count);
  }
  return bytes;
}

ValueId sum_to(GraphBuilder& builder, ValueId value, const Shape& shape) {
  const int extra = builder.shape(value).rank() - shape.rank();
  if (extra == 0) {
    return value;
  }
  std::vector<std::int64_t> axes;
  axes.reserve(extra);
  for (int i = 0; i < extra; ++i) {
    axes.push_back(i);
  }
  return builder.add1("reduce_sum", {value}, {{"axes", axes}});
}

}  // namespace trireme::rules
