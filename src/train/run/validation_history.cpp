#include "train/run/validation_history.h"

#include <fstream>

#include "base/json.h"

namespace trireme::train {

void ValidationHistory::load(const std::string& metrics_file) {
  std::ifstream file(metrics_file, std::ios::binary);
  for (std::string line; std::getline(file, line) && !file.eof();) {
    const Json json = Json::parse(line);
    if (const Json* loss = json.find("validation_loss"); loss != nullptr) {
      add(json.find("step")->get<std::int64_t>(), loss->get<double>());
    }
  }
}

bool ValidationHistory::add(std::int64_t step, double loss) {
  if (best_ && !(loss < best_->loss)) {
    ++since_best_;
    return false;
  }
  best_ = BestValidation{.step = step, .loss = loss};
  since_best_ = 0;
  return true;
}

}  // namespace trireme::train
