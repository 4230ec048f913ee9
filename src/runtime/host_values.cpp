#include "runtime/host_values.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "tensor/container_size.h"
#include "trireme/error.h"

namespace trireme::runtime {
namespace {

std::size_t bytes_of(const Buffer& buffer) {
  return container_size(size_of(buffer.type));
}

/// Slots that do not share a cache line.
std::size_t next_offset(std::size_t end) {
  constexpr std::size_t kLine = 64;
  return (end + kLine - 1) / kLine * kLine;
}

template <class T>
T element_at(const std::byte* data) {
  T element{};
  std::memcpy(&element, data, sizeof(T));
  return element;
}

double number_at(const std::byte* data, DType dtype) {
  switch (dtype) {
    case DType::F64:
      return element_at<double>(data);
    case DType::F16:
      return to_f32(element_at<Float16>(data));
    case DType::BF16:
      return to_f32(element_at<BFloat16>(data));
    case DType::I32:
      return element_at<std::int32_t>(data);
    case DType::I64:
      return static_cast<double>(element_at<std::int64_t>(data));
    case DType::I8:
      return element_at<std::int8_t>(data);
    case DType::U8:
      return element_at<std::uint8_t>(data);
    default:
      return element_at<float>(data);
  }
}

}  // namespace

StagedInputs::StagedInputs(const Program& program, Device& device, std::byte* arena)
    : device_(device) {
  for (std::size_t b = 0; b < program.buffers.size(); ++b) {
    const Buffer& buffer = program.buffers[b];
    if (buffer.origin == Origin::Input && !device.runs_inline()) {
      slots_[static_cast<std::int32_t>(b)] = {.offset = size_,
                                              .size = bytes_of(buffer),
                                              .to = arena + buffer.offset,
                                              .copied = device.make_event()};
      size_ = next_offset(size_ + bytes_of(buffer));
    }
  }
  memory_ = device.allocate_host({static_cast<std::int64_t>(size_)});
}

void StagedInputs::stage(Slot& slot, std::span<const std::byte> data, std::byte* to,
                         Stream& stream) {
  slot.copied->wait();
  const std::span<std::byte> staged = memory_->bytes().subspan(slot.offset, data.size());
  std::ranges::copy(data, staged.begin());
  stream.copy_in(to, staged);
  stream.record(*slot.copied);
}

void StagedInputs::write(BufferId buffer, std::span<const std::byte> data, Stream& stream) {
  Slot& slot = slots_.at(buffer.index);
  slot.is_ahead = false;
  stage(slot, data, slot.to, stream);
}

void StagedInputs::write_ahead(BufferId buffer, std::span<const std::byte> data) {
  if (!ahead_) {
    ahead_ = device_.allocate({static_cast<std::int64_t>(size_)});
    moved_in_ = device_.make_event();
    copies_ = device_.make_stream();
  }
  Slot& slot = slots_.at(buffer.index);
  slot.is_ahead = true;
  copies_->wait(*moved_in_);
  stage(slot, data, ahead_->data() + slot.offset, *copies_);
}

void StagedInputs::move_in(Stream& stream) {
  bool any = false;
  for (auto& [buffer, slot] : slots_) {
    if (std::exchange(slot.is_ahead, false)) {
      stream.wait(*slot.copied);
      stream.copy(slot.to, {ahead_->data() + slot.offset, slot.size});
      any = true;
    }
  }
  if (any) {
    stream.record(*moved_in_);
  }
}

FetchedNumbers::FetchedNumbers(const Program& program, Device& device, const std::byte* arena) {
  std::size_t size = 0;
  for (const NamedBuffer& output : program.outputs) {
    const Buffer& buffer = program.buffer(output.buffer);
    if (buffer.type.shape.element_count() == 1) {
      slots_.push_back(
          {output.name, buffer.type.dtype, bytes_of(buffer), size, arena + buffer.offset});
      size = next_offset(size + bytes_of(buffer));
    }
  }
  memory_ = device.allocate_host({static_cast<std::int64_t>(size)});
}

void FetchedNumbers::enqueue_copies(Stream& stream) {
  for (const Slot& slot : slots_) {
    stream.copy_out(memory_->bytes().subspan(slot.offset, slot.size), slot.from);
  }
}

double FetchedNumbers::number(std::string_view output) const {
  const auto slot = std::ranges::find(slots_, output, &Slot::name);
  if (slot == slots_.end()) {
    throw Error(ErrorKind::Usage, fmt::format("the program has no scalar output {}", output));
  }
  return number_at(memory_->bytes().data() + slot->offset, slot->dtype);
}

}  // namespace trireme::runtime
