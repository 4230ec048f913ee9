// Vectors of floats that travel: borrowed from a table, or owned and shared. So a pull is sent straight from the table
// and a push is received once, applied and forwarded without a copy. One thread at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <utility>

namespace trireme::ps {

/// Uninitialized floats, aligned for vector instructions.
class FloatBuffer {
 public:
  static constexpr std::align_val_t kAlignment{64};

  FloatBuffer() = default;
  explicit FloatBuffer(std::size_t size)
      : size_(size),
        data_(size == 0 ? nullptr
                        : static_cast<float*>(::operator new(size * sizeof(float), kAlignment))) {}

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::span<float> view() noexcept { return {data_.get(), size_}; }
  [[nodiscard]] std::span<const float> view() const noexcept { return {data_.get(), size_}; }

 private:
  struct Free {
    void operator()(float* data) const noexcept { ::operator delete(data, kAlignment); }
  };
  std::size_t size_ = 0;
  std::unique_ptr<float, Free> data_;
};

class Values {
 public:
  Values() = default;
  /// The floats must outlive the object and stay unchanged.
  [[nodiscard]] static Values borrow(std::span<const float> floats) { return {nullptr, floats}; }
  /// The floats stay unchanged until detach() is called on every copy of this object, or all of them are gone.
  [[nodiscard]] static Values pin(std::span<const float> floats) {
    Values values(nullptr, floats);
    values.is_pinned_ = true;
    return values;
  }
  /// The first `size` floats of a buffer.
  [[nodiscard]] static Values share(std::shared_ptr<FloatBuffer> buffer, std::size_t size) {
    const std::span<const float> floats = std::as_const(*buffer).view().first(size);
    return {std::move(buffer), floats};
  }
  [[nodiscard]] static Values copy(std::span<const float> floats) {
    auto buffer = std::make_shared<FloatBuffer>(floats.size());
    std::ranges::copy(floats, buffer->view().begin());
    return share(std::move(buffer), floats.size());
  }

  [[nodiscard]] std::span<const float> view() const noexcept { return floats_; }
  [[nodiscard]] std::size_t size() const noexcept { return floats_.size(); }
  [[nodiscard]] bool is_lasting() const noexcept { return owner_ != nullptr || is_pinned_; }
  /// Makes it last, by a copy if the floats are borrowed.
  void retain() {
    if (!is_lasting() && !floats_.empty()) {
      *this = copy(floats_);
    }
  }
  /// Makes it own its floats, by a copy if they are borrowed or pinned.
  void detach() {
    if (!owner_ && !floats_.empty()) {
      *this = copy(floats_);
    }
  }

 private:
  Values(std::shared_ptr<FloatBuffer> owner, std::span<const float> floats)
      : owner_(std::move(owner)), floats_(floats) {}

  std::shared_ptr<FloatBuffer> owner_;
  std::span<const float> floats_;
  bool is_pinned_ = false;
};

}  // namespace trireme::ps
