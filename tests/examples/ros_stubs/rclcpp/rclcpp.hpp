// The few declarations of ROS 2's rclcpp and of its messages that examples/cpp/ros_node.cpp uses.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace rclcpp {

struct SensorDataQoS {};
template <typename T>
struct Subscription {
  using SharedPtr = std::shared_ptr<Subscription>;
};
template <typename T>
struct Publisher {
  using SharedPtr = std::shared_ptr<Publisher>;
  void publish(const T&) {}
};
struct TimerBase {
  using SharedPtr = std::shared_ptr<TimerBase>;
};

struct Node {
  explicit Node(const std::string&) {}
  template <typename T, typename Qos, typename Callback>
  std::shared_ptr<Subscription<T>> create_subscription(const std::string&, const Qos&, Callback call) {
    std::function<void(std::shared_ptr<const T>)> checked = call;
    return std::make_shared<Subscription<T>>();
  }
  template <typename T>
  std::shared_ptr<Publisher<T>> create_publisher(const std::string&, int) {
    return std::make_shared<Publisher<T>>();
  }
  template <typename Period>
  TimerBase::SharedPtr create_wall_timer(Period, std::function<void()>) {
    return std::make_shared<TimerBase>();
  }
};

inline void init(int, char**) {}
inline void spin(std::shared_ptr<Node>) {}
inline void shutdown() {}

}  // namespace rclcpp

template <typename T>
struct Message {
  using ConstSharedPtr = std::shared_ptr<const T>;
};
namespace geometry_msgs::msg {
struct Vector3 {
  double x, y, z;
};
struct Twist : Message<Twist> {
  Vector3 linear, angular;
};
}  // namespace geometry_msgs::msg
namespace sensor_msgs::msg {
struct Imu : Message<Imu> {
  geometry_msgs::msg::Vector3 angular_velocity;
};
struct JointState : Message<JointState> {
  std::vector<std::string> name;
  std::vector<double> position, velocity;
};
}  // namespace sensor_msgs::msg
namespace std_msgs::msg {
struct Float64MultiArray {
  std::vector<double> data;
};
}  // namespace std_msgs::msg
