#include "train/step/sharded_execution.h"

#include <algorithm>

#include <fmt/format.h>

#include "tensor/container_size.h"
#include "trireme/error.h"
#include "trireme/parts.h"

namespace trireme::train {
namespace {

constexpr std::int32_t kReadTag = 0x7ead;

std::vector<std::byte> room_for(const trireme::Part& part) {
  const TensorType type{part.type.dtype, shape_of(part)};
  return std::vector<std::byte>(container_size(size_of(type)));
}

}  // namespace

ShardedExecution::ShardedExecution(const CompiledPlan& compiled, Device& device,
                                   Communicator* communicator)
    : compiled_(compiled),
      communicator_(communicator),
      rank_(communicator == nullptr ? 0 : communicator->rank()),
      execution_(std::make_unique<Execution>(compiled.program(rank_), device, communicator)) {}

ShardedExecution::~ShardedExecution() = default;

void ShardedExecution::run(Trace* trace, const std::function<void()>& while_computing) {
  if (trace != nullptr && communicator_ != nullptr) {
    communicator_->all().barrier();
  }
  execution_->run(trace, while_computing);
}

std::optional<std::span<const std::byte>> ShardedExecution::shard_of(
    std::string_view name, std::span<const std::byte> whole, std::vector<std::byte>& room) const {
  const Value& value = compiled_.graph().value(compiled_.graph().find(name));
  if (static_cast<std::int64_t>(whole.size()) != size_of(value.type).count) {
    throw Error(ErrorKind::Usage,
                fmt::format("{} is {}, {} bytes; {} bytes were given", name, to_text(value.type),
                            size_of(value.type).count, whole.size()));
  }
  // An input is stored only on the ranks that read it.
  const bool stored_here =
      value.origin == Origin::Input
          ? std::ranges::any_of(program().buffers,
                                [&](const Buffer& buffer) {
                                  return buffer.origin == Origin::Input && buffer.name == name;
                                })
          : compiled_.stores(value, rank_);
  if (!stored_here) {
    return std::nullopt;
  }
  const trireme::Part part = compiled_.shard_of(value, rank_);
  if (shape_of(part) == value.type.shape) {
    return whole;
  }
  room = room_for(part);
  take_part(part, whole, room);
  return room;
}

void ShardedExecution::write(std::string_view name, std::span<const std::byte> whole) {
  std::vector<std::byte> room;
  if (const auto mine = shard_of(name, whole, room)) {
    execution_->write(name, *mine);
  }
}

void ShardedExecution::write_ahead(std::string_view name, std::span<const std::byte> whole) {
  std::vector<std::byte> room;
  if (const auto mine = shard_of(name, whole, room)) {
    execution_->write_ahead(name, *mine);
  }
}

void ShardedExecution::read(std::string_view name, std::span<std::byte> whole) {
  const auto& outputs = compiled_.graph().outputs();
  const bool is_output = std::ranges::find(outputs, name, &Output::name) != outputs.end();
  Value value = compiled_.graph().value(is_output ? compiled_.graph().output(name)
                                                  : compiled_.graph().find(name));
  value.name = name;
  if (communicator_ == nullptr) {
    execution_->read(name, whole);
    return;
  }
  Group& all = communicator_->all();
  const int own = rank_;
  std::vector<std::vector<int>> seen;  // shards that rank 0 already has
  for (int rank = 0; rank < compiled_.plan().mesh.devices(); ++rank) {
    if (!compiled_.stores(value, rank)) {
      continue;
    }
    const trireme::Part part = compiled_.shard_of(value, rank);
    std::vector<int> which;
    for (std::size_t a = 0; a < part.axes.size(); ++a) {
      which.push_back(part.placement.mentions(static_cast<int>(a)) ? part.coordinates[a] : 0);
    }
    if (std::ranges::find(seen, which) != seen.end()) {
      continue;
    }
    seen.push_back(which);
    if (own != 0 && own != rank) {
      continue;
    }
    std::vector<std::byte> bytes = room_for(part);
    if (own == rank) {
      execution_->read(name, bytes);
    }
    if (own == rank && own != 0) {
      all.send(std::span<const std::uint8_t>(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                                             bytes.size()),
               0, kReadTag);
    }
    if (own == 0) {
      if (rank != 0) {
        all.receive(
            std::span<std::uint8_t>(reinterpret_cast<std::uint8_t*>(bytes.data()), bytes.size()),
            rank, kReadTag);
      }
      put_part(part, bytes, whole);
    }
  }
}

}  // namespace trireme::train
