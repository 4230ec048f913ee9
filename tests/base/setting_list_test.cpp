#include "base/setting_list.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(SettingList, SplitsHeadAndSettings) {
  const SettingList list = split_settings(" adamw, beta2=0.9 ,noise,name=");
  EXPECT_EQ(list.head, "adamw");
  ASSERT_EQ(list.settings.size(), 3U);
  EXPECT_EQ(list.settings[0].name, "beta2");
  EXPECT_EQ(list.settings[0].value, "0.9");
  EXPECT_EQ(list.settings[1].name, "noise");
  EXPECT_EQ(list.settings[1].value, std::nullopt);
  EXPECT_EQ(list.settings[2].value, "");
}

TEST(SettingList, FindsDuplicateName) {
  EXPECT_EQ(split_settings("8").repeated_name(), std::nullopt);
  EXPECT_EQ(split_settings("8,a=1,b=1").repeated_name(), std::nullopt);
  EXPECT_EQ(split_settings("8,a=1,b=1,a=2").repeated_name(), "a");
}

}  // namespace
}  // namespace trireme
