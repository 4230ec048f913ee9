#include "train/sync/local_model.h"

#include <algorithm>

#include <fmt/format.h>

#include "tensor/container_size.h"
#include "tensor/half.h"
#include "train/sync/mixer.h"
#include "trireme/error.h"

namespace trireme::train {
namespace {

bool is_stored(const Program& program, const std::string& name) {
  return std::ranges::any_of(program.buffers, [&](const Buffer& buffer) {
    return buffer.origin == Origin::State && buffer.name == name;
  });
}

bool is_master(const Buffer& buffer) {
  return buffer.name.starts_with(master_of(""));
}

}  // namespace

LocalModel::LocalModel(Trainer& trainer) : trainer_(trainer) {
  const Program& program = trainer_.program();
  for (const Buffer& buffer : program.buffers) {
    if (buffer.origin != Origin::Parameter) {
      continue;
    }
    const std::string master = master_of(buffer.name);
    Piece piece{.parameter = buffer.name,
                .stored = is_stored(program, master) ? master : buffer.name,
                .dtype = buffer.type.dtype,
                .elements = container_size(buffer.type.shape)};
    if (piece.stored == buffer.name && buffer.type.dtype != DType::F32) {
      throw Error(ErrorKind::Usage,
                  fmt::format("--sync averages models in f32, and {} is {}; use --dtype f32, or "
                              "master weights",
                              buffer.name, to_text(buffer.type.dtype)));
    }
    size_ += piece.elements;
    pieces_.push_back(std::move(piece));
  }
}

void LocalModel::read(std::span<float> model) const {
  for (const Piece& piece : pieces_) {
    trainer_.read_shard(piece.stored, std::as_writable_bytes(model.first(piece.elements)));
    model = model.subspan(piece.elements);
  }
}

void LocalModel::write(std::span<const float> model) {
  std::vector<std::byte> halves;
  for (const Piece& piece : pieces_) {
    const std::span<const std::byte> bytes = std::as_bytes(model.first(piece.elements));
    trainer_.write_shard(piece.stored, bytes);
    if (piece.stored != piece.parameter) {
      halves.resize(bytes.size() / 2);
      narrow_to_halves(piece.dtype, bytes.data(), halves);
      trainer_.write_shard(piece.parameter, halves);
    }
    model = model.subspan(piece.elements);
  }
}

void LocalModel::average_state(Group& workers) {
  std::vector<float> elements;
  for (const Buffer& buffer : trainer_.program().buffers) {
    if (buffer.origin != Origin::State || is_master(buffer)) {
      continue;
    }
    elements.resize(container_size(buffer.type.shape));
    trainer_.read_shard(buffer.name, std::as_writable_bytes(std::span(elements)));
    if (buffer.type.shape.rank() == 0) {
      workers.run(broadcast<float>(elements, 0));
    } else {
      average_over(workers, elements);
    }
    trainer_.write_shard(buffer.name, std::as_bytes(std::span(elements)));
  }
}

}  // namespace trireme::train
