// conv2d and its gradients by oneDNN. The library chooses its fastest layout; if it differs from ours, operands are
// reordered through the workspace.
#include <array>
#include <unordered_map>
#include <vector>

#include <dnnl.hpp>

#include "backend/cpu/kernel.h"
#include "backend/cpu/library.h"

namespace trireme::cpu {
namespace {

using dnnl::memory;
using Arguments = std::unordered_map<int, memory>;

constexpr std::int64_t kAlignment = 64;

/// Primitives run in sequence.
class LibraryKernel : public Kernel {
 public:
  struct Call {
    dnnl::primitive primitive;
    Arguments arguments;
  };
  explicit LibraryKernel(std::vector<Call> calls) : calls_(std::move(calls)) {}
  void enqueue(Stream&) override {
    for (const Call& call : calls_) {
      call.primitive.execute(library_stream(), call.arguments);
    }
    library_stream().wait();
  }

 private:
  std::vector<Call> calls_;
};

/// An operand: its layout in our memory, the library's layout, and where that is in the workspace.
struct Operand {
  int argument = 0;
  memory::desc ours{};
  memory::desc wanted{};
  std::int64_t place = 0;

  [[nodiscard]] bool moves() const { return ours != wanted; }
};

/// Two inputs and a result, with reorders around the primitive if layouts differ.
class PreparedConvolution : public PreparedKernel {
 public:
  PreparedConvolution(dnnl::primitive primitive, const memory::desc& scratch,
                      const std::array<Operand, 3>& operands)
      : primitive_(std::move(primitive)), scratch_(scratch), operands_(operands) {
    for (Operand& operand : operands_) {
      if (operand.moves()) {
        operand.place = take(operand.wanted);
      }
    }
    scratch_place_ = take(scratch_);
  }

  [[nodiscard]] Bytes workspace() const override { return {workspace_}; }

  [[nodiscard]] std::unique_ptr<Kernel> bind(const KernelMemory& at) override {
    std::vector<LibraryKernel::Call> calls;
    Arguments arguments{{DNNL_ARG_SCRATCHPAD, make(scratch_, at.workspace + scratch_place_)}};
    for (std::size_t k = 0; k < 2; ++k) {
      // oneDNN takes inputs as non-const memory, but does not write to them.
      auto* data =
          const_cast<std::byte*>(at.inputs[k]);  // NOLINT(cppcoreguidelines-pro-type-const-cast)
      const memory given = make(operands_[k].ours, data);
      arguments[operands_[k].argument] = given;
      if (operands_[k].moves()) {
        const memory moved = make(operands_[k].wanted, at.workspace + operands_[k].place);
        calls.push_back(reorder(given, moved));
        arguments[operands_[k].argument] = moved;
      }
    }
    const Operand& result = operands_[2];
    const memory target = make(result.ours, at.outputs[0]);
    const memory made = result.moves() ? make(result.wanted, at.workspace + result.place) : target;
    arguments[result.argument] = made;
    calls.push_back({primitive_, std::move(arguments)});
    if (result.moves()) {
      calls.push_back(reorder(made, target));
    }
    return std::make_unique<LibraryKernel>(std::move(calls));
  }

 private:
  static memory make(const memory::desc& desc, std::byte* data) {
    return {desc, library_engine(), data};
  }
  static LibraryKernel::Call reorder(const memory& from, const memory& to) {
    return {dnnl::reorder(from, to), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}};
  }
  std::int64_t take(const memory::desc& desc) {
    const std::int64_t place = workspace_;
    const auto bytes = static_cast<std::int64_t>(desc.get_size());
    workspace_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return place;
  }

  dnnl::primitive primitive_;
  memory::desc scratch_;
  std::array<Operand, 3> operands_;
  std::int64_t scratch_place_ = 0;
  std::int64_t workspace_ = 0;
};

/// The three tensors of a convolution: in our layout, and with the layout left to the library.
struct Convolution {
  std::array<memory::desc, 3> ours{};  ///< x, w, y
  std::array<memory::desc, 3> any{};
  memory::dims stride{};
  memory::dims padding{};
  dnnl::primitive_attr attributes{};

  Convolution(const KernelRequest& request, memory::data_type element,
              const std::array<Shape, 3>& shapes)
      : stride(signature_of(request).integers("stride")),
        padding(signature_of(request).integers("padding")) {
    for (std::size_t k = 0; k < 3; ++k) {
      ours[k] = memory::desc(shapes[k].dims(), element,
                             k == 1 ? memory::format_tag::oihw : memory::format_tag::nchw);
      any[k] = memory::desc(shapes[k].dims(), element, memory::format_tag::any);
    }
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  }

  /// The forward, which the gradients need as a hint.
  [[nodiscard]] dnnl::convolution_forward::primitive_desc forward() const {
    return {{dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_direct, any[0], any[1],
             any[2], stride, padding, padding},
            attributes,
            library_engine()};
  }
};

using Make = std::unique_ptr<PreparedKernel> (*)(const Convolution&);

std::unique_ptr<PreparedKernel> make_forward(const Convolution& c) {
  const auto row = c.forward();
  return std::make_unique<PreparedConvolution>(
      dnnl::convolution_forward(row), row.scratchpad_desc(),
      std::array{Operand{DNNL_ARG_SRC, c.ours[0], row.src_desc()},
                 Operand{DNNL_ARG_WEIGHTS, c.ours[1], row.weights_desc()},
                 Operand{DNNL_ARG_DST, c.ours[2], row.dst_desc()}});
}

std::unique_ptr<PreparedKernel> make_backward_input(const Convolution& c) {
  const dnnl::convolution_backward_data::primitive_desc row(
      {dnnl::algorithm::convolution_direct, c.any[0], c.any[1], c.any[2], c.stride, c.padding,
       c.padding},
      c.attributes, library_engine(), c.forward());
  return std::make_unique<PreparedConvolution>(
      dnnl::convolution_backward_data(row), row.scratchpad_desc(),
      std::array{Operand{DNNL_ARG_DIFF_DST, c.ours[2], row.diff_dst_desc()},
                 Operand{DNNL_ARG_WEIGHTS, c.ours[1], row.weights_desc()},
                 Operand{DNNL_ARG_DIFF_SRC, c.ours[0], row.diff_src_desc()}});
}

std::unique_ptr<PreparedKernel> make_backward_weight(const Convolution& c) {
  const dnnl::convolution_backward_weights::primitive_desc row(
      {dnnl::algorithm::convolution_direct, c.any[0], c.any[1], c.any[2], c.stride, c.padding,
       c.padding},
      c.attributes, library_engine(), c.forward());
  return std::make_unique<PreparedConvolution>(
      dnnl::convolution_backward_weights(row), row.scratchpad_desc(),
      std::array{Operand{DNNL_ARG_DIFF_DST, c.ours[2], row.diff_dst_desc()},
                 Operand{DNNL_ARG_SRC, c.ours[0], row.src_desc()},
                 Operand{DNNL_ARG_DIFF_WEIGHTS, c.ours[1], row.diff_weights_desc()}});
}

/// Nothing if the library does not support it: types, no elements, this processor.
std::unique_ptr<PreparedKernel> make(const KernelRequest& request,
                                     const std::array<Shape, 3>& shapes, Make how) {
  const auto element = library_type(request.inputs[0].dtype);
  for (const Shape& shape : shapes) {
    if (shape.element_count() == 0) {
      return nullptr;
    }
  }
  if (!element) {
    return nullptr;
  }
  try {
    return how(Convolution(request, *element, shapes));
  } catch (const dnnl::error&) {
    return nullptr;
  }
}

}  // namespace

std::unique_ptr<PreparedKernel> library_conv2d(const KernelRequest& r) {
  return make(r, {r.inputs[0].shape, r.inputs[1].shape, r.outputs[0].shape}, make_forward);
}

std::unique_ptr<PreparedKernel> library_conv2d_backward_input(const KernelRequest& r) {
  return make(r, {r.outputs[0].shape, r.inputs[1].shape, r.inputs[0].shape}, make_backward_input);
}

std::unique_ptr<PreparedKernel> library_conv2d_backward_weight(const KernelRequest& r) {
  return make(r, {r.inputs[1].shape, r.outputs[0].shape, r.inputs[0].shape}, make_backward_weight);
}

}  // namespace trireme::cpu
