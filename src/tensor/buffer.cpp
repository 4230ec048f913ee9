#include <cstring>
#include <limits>
#include <new>
#include <utility>

#include <fmt/format.h>

#include "tensor/container_size.h"
#include "trireme/error.h"
#include "trireme/tensor.h"

namespace trireme {
namespace {

constexpr std::align_val_t kAlign{HostBuffer::kAlignment};

std::int64_t checked_bytes(DType dtype, std::int64_t elements) {
  const std::int64_t each = size_of(dtype).count;
  if (elements < 0 || elements > std::numeric_limits<std::int64_t>::max() / each) {
    throw Error(ErrorKind::Usage,
                fmt::format("invalid buffer of {} elements of {}", elements, to_text(dtype)));
  }
  return elements * each;
}

std::byte* allocate_zeroed(std::int64_t bytes) {
  if (bytes == 0) {
    return nullptr;
  }
  const std::size_t size = container_size(Bytes{bytes});
  void* data = ::operator new(size, kAlign, std::nothrow);
  if (data == nullptr) {
    throw Error(ErrorKind::System,
                fmt::format("cannot allocate {} of host memory", to_text(Bytes{bytes})));
  }
  std::memset(data, 0, size);
  return static_cast<std::byte*>(data);
}

}  // namespace

void HostBuffer::Free::operator()(std::byte* data) const noexcept {
  ::operator delete(data, kAlign);
}

HostBuffer::HostBuffer(DType dtype, std::int64_t elements)
    : dtype_(dtype), elements_(elements), data_(allocate_zeroed(checked_bytes(dtype, elements))) {}

HostBuffer::HostBuffer(HostBuffer&& other) noexcept
    : dtype_(other.dtype_),
      elements_(std::exchange(other.elements_, 0)),
      data_(std::move(other.data_)) {}

HostBuffer& HostBuffer::operator=(HostBuffer&& other) noexcept {
  dtype_ = other.dtype_;
  data_ = std::move(other.data_);
  elements_ = data_ ? std::exchange(other.elements_, 0) : 0;
  return *this;
}

HostBuffer HostBuffer::clone() const {
  HostBuffer copy(dtype_, elements_);
  if (elements_ > 0) {
    std::memcpy(copy.data_.get(), data_.get(), container_size(bytes()));
  }
  return copy;
}

Bytes HostBuffer::bytes() const noexcept {
  return {elements_ * size_of(dtype_).count};
}

std::span<std::byte> HostBuffer::raw() noexcept {
  return {data_.get(), container_size(bytes())};
}

std::span<const std::byte> HostBuffer::raw() const noexcept {
  return {data_.get(), container_size(bytes())};
}

void HostBuffer::require(DType requested) const {
  if (requested != dtype_) {
    throw Error(ErrorKind::Usage, fmt::format("a buffer of {} cannot be read as {}",
                                              to_text(dtype_), to_text(requested)));
  }
}

}  // namespace trireme
