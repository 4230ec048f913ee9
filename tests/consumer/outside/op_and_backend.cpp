// An op and a backend that Trireme does not know: y = x^3, trained on the CPU device and on a device of our own.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <trireme/cpu_device.h>
#include <trireme/device.h>
#include <trireme/execution.h>
#include <trireme/host_device.h>
#include <trireme/op.h>
#include <trireme/op_rules.h>
#include <trireme/training.h>

namespace {

using namespace trireme;

void cube_reference(const Signature&, std::span<const Dense> in, std::span<Dense> out) {
  for (std::size_t i = 0; i < in[0].data.size(); ++i) {
    out[0].data[i] = in[0].data[i] * in[0].data[i] * in[0].data[i];
  }
}

/// 3 x^2 g.
std::vector<ValueId> cube_gradient(GradientQuery& q) {
  const ValueId squares = q.builder.add1("square", {q.node.inputs[0]});
  const ValueId threefold = q.builder.add1("scale", {squares}, {{"factor", 3.0}});
  return {q.builder.add1("multiply", {threefold, q.outputs[0]})};
}

Op cube() {
  return {.name = "cube",
          .summary = "y = x^3",
          .inputs = {"x"},
          .outputs = {"y"},
          .infer = rules::like_first,
          .factors = rules::elementwise_factors,
          .work = rules::per_element<2>,
          .gradient = cube_gradient,
          .in_place = {{0, 0}},
          .reference = cube_reference};
}

/// A backend with nothing but references, and a count of its kernels.
class PlainDevice : public HostDevice {
 public:
  [[nodiscard]] std::string name() const override { return "plain"; }
  [[nodiscard]] std::unique_ptr<PreparedKernel> prepare(const KernelRequest& request) override {
    ++prepared;
    return std::make_unique<Prepared>(request);
  }

  int prepared = 0;

 private:
  class Plain : public Kernel {
   public:
    Plain(const KernelRequest& request, KernelMemory memory)
        : request_(request), memory_(std::move(memory)) {}
    void enqueue(Stream&) override {
      run_reference({.op = *request_.op,
                     .attributes = request_.attributes,
                     .inputs = request_.inputs,
                     .outputs = request_.outputs},
                    memory_.inputs, memory_.outputs);
    }

   private:
    KernelRequest request_;
    KernelMemory memory_;
  };
  class Prepared : public PreparedKernel {
   public:
    explicit Prepared(const KernelRequest& request) : request_(request) {}
    [[nodiscard]] std::unique_ptr<Kernel> bind(const KernelMemory& memory) override {
      return std::make_unique<Plain>(request_, memory);
    }

   private:
    KernelRequest request_;
  };
};

/// loss = sum of (x w)^3, and one step of gradient descent.
Graph make_step() {
  GraphBuilder b("cubes");
  const ValueId x = b.input("x", {DType::F32, {2}});
  const ValueId w = b.parameter("w", {DType::F32, {2}});
  const ValueId cubes = b.add1("cube", {b.add1("multiply", {x, w})});
  const ValueId loss = b.add1("reduce_sum", {cubes}, {{"axes", std::vector<std::int64_t>{0}}});
  b.rename(loss, "loss");
  b.output("loss", loss);
  return make_training_graph(b.finish(), {.optimizer = Sgd{}});
}

template <class T>
void write(Execution& execution, const char* name, const std::vector<T>& values) {
  execution.write(name, std::as_bytes(std::span(values)));
}

/// The parameter after one step.
std::vector<float> train(Device& device) {
  Execution execution(make_program(make_step()), device);
  write<float>(execution, "x", {1.0F, 2.0F});
  write<float>(execution, "w", {0.5F, 0.25F});
  write<float>(execution, "learning_rate", {0.1F});
  write<std::int64_t>(execution, "step", {1});
  execution.run();
  std::vector<float> w(2);
  execution.read("w", std::as_writable_bytes(std::span(w)));
  return w;
}

bool is_right(const std::vector<float>& w) {
  // w - 0.1 * 3 (x w)^2 x
  const double first = 0.5 - 0.1 * 3 * 0.25 * 1;
  const double second = 0.25 - 0.1 * 3 * 0.25 * 2;
  return std::abs(w[0] - first) < 1e-6 && std::abs(w[1] - second) < 1e-6;
}

}  // namespace

int main() {
  register_op(cube());
  PlainDevice plain;
  const std::unique_ptr<Device> cpu = make_cpu_device();
  const std::vector<float> on_cpu = train(*cpu);
  const std::vector<float> on_plain = train(plain);
  std::printf("cpu %g %g, plain %g %g, %d kernels\n", on_cpu[0], on_cpu[1], on_plain[0],
              on_plain[1], plain.prepared);
  return is_right(on_cpu) && is_right(on_plain) && plain.prepared > 2 ? 0 : 1;
}
