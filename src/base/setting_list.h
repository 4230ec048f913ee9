// SettingList: "HEAD,NAME=VALUE,…", the form of options such as --optimizer adamw,beta2=0.999. Callable from any thread.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace trireme {

/// The views point into the text that was split.
struct SettingList {
  struct Setting {
    std::string_view name{};
    std::optional<std::string_view> value{};  ///< nothing without "="
  };
  std::string_view head{};  ///< what precedes the first comma
  std::vector<Setting> settings{};

  /// A name that occurs more than once, if there is one.
  [[nodiscard]] std::optional<std::string_view> repeated_name() const;
};

/// Blanks around commas do not count.
[[nodiscard]] SettingList split_settings(std::string_view text);

}  // namespace trireme
