// Optimizers as text: the values of `trireme train --optimizer`.
#include <string>

#include <gtest/gtest.h>

#include "expect_error.h"
#include "trireme/error.h"
#include "trireme/training.h"

namespace trireme {
namespace {

TEST(OptimizerText, RoundTrips) {
  for (const char* text :
       {"adamw,beta1=0.8,beta2=0.999,eps=1e-06,weight-decay=0.05", "sgd,weight-decay=0.5",
        "momentum,momentum=0.5,nesterov=on,weight-decay=0", "adagrad,eps=0.1,weight-decay=0",
        "lion,beta1=0.95,beta2=0.98,weight-decay=1",
        "muon,momentum=0.9,beta1=0.5,beta2=0.75,eps=1e-09,weight-decay=0.25"}) {
    EXPECT_EQ(to_text(parse_optimizer(text)), text);
  }
}

TEST(OptimizerText, HasDefaults) {
  EXPECT_EQ(to_text(parse_optimizer("adamw")),
            "adamw,beta1=0.9,beta2=0.95,eps=1e-08,weight-decay=0.1");
  EXPECT_EQ(to_text(parse_optimizer("sgd")), "sgd,weight-decay=0");
  EXPECT_EQ(to_text(parse_optimizer("lion, beta1=0.5")),
            "lion,beta1=0.5,beta2=0.99,weight-decay=0.1");
  EXPECT_EQ(name_of(parse_optimizer("muon,momentum=0.9")), "muon");
}

TEST(OptimizerText, ReportsErrors) {
  struct Wrong {
    const char* text;
    const char* words;
  };
  for (const Wrong& one :
       {Wrong{"adam", "unknown optimizer 'adam'; did you mean adamw?"},
        {"sgd,beta1=0.9", "unknown setting of sgd 'beta1'; use weight-decay"},
        {"adamw,beta2=1", "beta2 of adamw is '1'; it must be a number of 0 or more and below 1"},
        {"adamw,beta2=", "beta2 of adamw is ''"},
        {"adamw,eps=0", "eps of adamw is '0'; it must be a number above 0"},
        {"lion,weight-decay=-1", "weight-decay of lion is '-1'; it must be a number of 0 or more"},
        {"lion,beta1=0.9,beta1=0.8", "'beta1' is given twice"},
        {"momentum,nesterov=yes", "nesterov of momentum is 'yes'; it must be on or off"}}) {
    SCOPED_TRACE(one.text);
    expect_error(ErrorKind::Usage, one.words, [&] { (void)parse_optimizer(one.text); });
  }
}

}  // namespace
}  // namespace trireme
