// SPDX-License-Identifier: Apache-2.0
// What a request for a step asks for beyond the plan: each circumstance by itself.
#include "simulator/what_if/step_request.h"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "simulator/what_if/simulate_step.h"

namespace meshwright::step_request_test {
namespace {

struct Circumstance {
  const char* what;
  std::function<void(StepRequest&)> set;
  bool plain, of_a_plan, alike;  // what is still true of the request with it
};

const std::vector<Circumstance>& circumstances() {
  static const std::vector<Circumstance> all = {
      {"none", [](StepRequest&) {}, true, true, true},
      {"a fluid network", [](StepRequest& r) { r.network = NetworkModel::Fluid; }, false, true, true},
      {"a fifo network", [](StepRequest& r) { r.network = NetworkModel::Fifo; }, false, true, false},
      {"chains", [](StepRequest& r) { r.broadcast = Broadcast::Chain; }, true, true, false},
      {"overlap", [](StepRequest& r) { r.overlap.emplace(); }, false, true, true},
      {"a controller", [](StepRequest& r) { r.controller.emplace(); }, false, true, false},
      {"a slow device",
       [](StepRequest& r) {
         r.slow_devices.push_back({0, 0.5});
       },
       false, false, false},
      {"slow links",
       [](StepRequest& r) {
         r.slow_links.push_back({"within-host", 0.5});
       },
       false, false, true},
      {"samples without jitter", [](StepRequest& r) { r.samples = 3; }, false, false, true},
      {"samples with jitter",
       [](StepRequest& r) {
         r.samples = 3;
         r.conditions.jitter = 0.1;
       },
       false, false, false},
      {"jitter that nothing is drawn with", [](StepRequest& r) { r.conditions.jitter = 0.1; }, true, false, true},
      {"a mean over jitter", [](StepRequest& r) { r.mean_jitter = 0.1; }, false, true, false},
      {"failures", [](StepRequest& r) { r.failures.emplace(); }, false, false, true},
      {"replicas", [](StepRequest& r) { r.replicas = 2; }, false, false, false},
  };
  return all;
}

}  // namespace

TEST(StepRequest, OneCircumstanceIsEnoughToBeNoPlainStep) {
  for (const Circumstance& one : circumstances()) {
    StepRequest request;
    one.set(request);
    EXPECT_EQ(request.plain(), one.plain) << one.what;
    EXPECT_EQ(request.is_of_a_plan(), one.of_a_plan) << one.what;
    EXPECT_EQ(keeps_devices_alike(request), one.alike) << one.what;
  }
}

TEST(StepRequest, SlowLinksAreThoseOfTheCluster) {
  StepRequest request;
  request.slow_links = {{"within-host", 0.5}, {"between-hosts", 0.25}};
  const Cluster cluster = find_cluster("p3.16xlarge:2"), slow = cluster_of_step(cluster, request);
  EXPECT_EQ(slow.only().within_host.beta, 2.0 * cluster.only().within_host.beta);
  EXPECT_EQ(slow.only().between_hosts.beta, 4.0 * cluster.only().between_hosts.beta);
}

}  // namespace meshwright::step_request_test
