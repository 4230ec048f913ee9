// Trains a small GPT on as many processes as the first argument says and samples from it; then resumes the run on one
// device with twice the steps, and exports the model for Hugging Face.
#include <cstdio>
#include <string>

#include <trireme/cpu_device.h>
#include <trireme/train.h>

int main(int argc, char** argv) {
  trireme::RunOptions options;
  options.model = trireme::preset_model(
      "gpt-mini");  // or options.settings.model = "path/to/a/hugging-face-folder"
  std::get<trireme::ModelConfig>(*options.model).layers = 2;
  options.settings.steps = 20;  // options.settings.data = {"book.txt"} trains on a file
  options.plan.mesh = trireme::parse_mesh(std::string("data=") + (argc > 1 ? argv[1] : "1"));
  options.make_device = trireme::cpu_devices();
  options.run_folder = "small-gpt";
  options.observer.step = [](const trireme::RunFacts&, const trireme::StepReport& step) {
    std::printf("step %d: loss %.4f\n", static_cast<int>(step.step), step.loss);
  };
  trireme::run_ranks(options, [](trireme::TrainingRun& run) {
    run.train();  // saves a checkpoint at the end
    const double loss = run.evaluate().value();
    const std::string text = run.text_of(run.sample({0}, 20));
    if (run.rank() == 0) {
      std::printf("validation loss %.4f; it writes: %s\n", loss, text.c_str());
    }
  });

  options.resume = std::exchange(options.run_folder, "");
  options.settings = trireme::load_settings(options.resume);
  options.settings.steps = 40;
  options.plan.mesh = {};
  options.export_folder = "small-gpt/exported";
  trireme::run_ranks(options, [](trireme::TrainingRun& run) { run.train(); });
}
