#include "base/setting_list.h"

#include <algorithm>

#include "base/text.h"

namespace trireme {
namespace {

SettingList::Setting setting_in(std::string_view part) {
  const std::size_t equals = part.find('=');
  if (equals == std::string_view::npos) {
    return {.name = part};
  }
  return {.name = part.substr(0, equals), .value = part.substr(equals + 1)};
}

}  // namespace

std::optional<std::string_view> SettingList::repeated_name() const {
  for (auto it = settings.begin(); it != settings.end(); ++it) {
    if (std::ranges::find(settings.begin(), it, it->name, &Setting::name) != it) {
      return it->name;
    }
  }
  return std::nullopt;
}

SettingList split_settings(std::string_view text) {
  const std::vector<std::string_view> parts = split(text, ',');
  SettingList list{.head = trim(parts.front())};
  for (std::size_t i = 1; i < parts.size(); ++i) {
    list.settings.push_back(setting_in(trim(parts[i])));
  }
  return list;
}

}  // namespace trireme
