// A node of ROS 2 that runs the policy of policy.py: ros2 run PACKAGE ros_node POLICY.onnx
//
// It reads joint_states, imu and cmd_vel, and writes position targets in the order of the policy's
// joints. If no state has come for ten periods, it stops, and the memory starts anew.
#include <chrono>
#include <geometry_msgs/msg/twist.hpp>
#include <memory>
#include <rclcpp/rclcpp.hpp>
#include <sensor_msgs/msg/imu.hpp>
#include <sensor_msgs/msg/joint_state.hpp>
#include <std_msgs/msg/float64_multi_array.hpp>

#include "hlo2onnx_policy.hpp"

using geometry_msgs::msg::Twist;
using sensor_msgs::msg::Imu;
using sensor_msgs::msg::JointState;
using std_msgs::msg::Float64MultiArray;

class PolicyNode : public rclcpp::Node {
 public:
  explicit PolicyNode(const std::string& path) : Node("policy"), path_(path) {
    const auto qos = rclcpp::SensorDataQoS();
    joints_ = create_subscription<JointState>(
        "joint_states", qos, [this](JointState::ConstSharedPtr message) { read(*message); });
    imu_ = create_subscription<Imu>(
        "imu", qos, [this](Imu::ConstSharedPtr message) { turning_ = message->angular_velocity; });
    command_ = create_subscription<Twist>(
        "cmd_vel", 1, [this](Twist::ConstSharedPtr message) { wish_ = *message; });
    targets_ = create_publisher<Float64MultiArray>("position_targets", 1);
  }

 private:
  // The first message names the robot's joints. The policy's must be among them.
  void read(const JointState& message) {
    if (!policy_) {
      policy_ = std::make_unique<hlo2onnx::Policy>(path_, message.name);
      names_ = message.name;
      zero_ = policy_->numbers("default_joint_pos");
      scale_ = policy_->numbers("action_scale").at(0);
      period_ = std::chrono::duration<double>(policy_->numbers("control_period").at(0));
      timer_ = create_wall_timer(period_, [this] { step(); });
    }
    if (message.name != names_) throw std::runtime_error("the joints came in another order");
    const auto& order = policy_->joint_order();
    for (std::size_t i = 0; i < order.size(); ++i) {
      input("joint_pos")[i] = static_cast<float>(message.position.at(order[i]));
      input("joint_vel")[i] = static_cast<float>(message.velocity.at(order[i]));
    }
    seen_ = std::chrono::steady_clock::now();
  }

  void step() {
    if (std::chrono::steady_clock::now() - seen_ > 10 * period_) return policy_->reset();
    const double turning[] = {turning_.x, turning_.y, turning_.z};
    const double wish[] = {wish_.linear.x, wish_.linear.y, wish_.angular.z};
    std::copy(turning, turning + 3, input("gyro"));
    std::copy(wish, wish + 3, input("command"));
    policy_->step();
    const float* action = policy_->action<float>("action");
    Float64MultiArray message;
    for (std::size_t i = 0; i < zero_.size(); ++i)
      message.data.push_back(zero_[i] + scale_ * action[i]);
    targets_->publish(message);
  }

  float* input(const std::string& name) { return policy_->observation<float>("observation/" + name); }

  std::string path_;
  std::unique_ptr<hlo2onnx::Policy> policy_;
  std::vector<std::string> names_;
  std::vector<double> zero_;
  double scale_ = 1;
  std::chrono::duration<double> period_{};
  std::chrono::steady_clock::time_point seen_;
  geometry_msgs::msg::Vector3 turning_;
  Twist wish_;
  rclcpp::Subscription<JointState>::SharedPtr joints_;
  rclcpp::Subscription<Imu>::SharedPtr imu_;
  rclcpp::Subscription<Twist>::SharedPtr command_;
  rclcpp::Publisher<Float64MultiArray>::SharedPtr targets_;
  rclcpp::TimerBase::SharedPtr timer_;
};

int main(int count, char** arguments) {
  rclcpp::init(count, arguments);
  rclcpp::spin(std::make_shared<PolicyNode>(arguments[1]));
  rclcpp::shutdown();
}
