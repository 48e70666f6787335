#ifndef MOONRING_LUA_HTTP_SERVER_CONNECTION_H_
#define MOONRING_LUA_HTTP_SERVER_CONNECTION_H_

// The bytes of one connection of HttpServer: input that waits to be parsed, output that waits to be
// written, and one deadline. What the bytes mean is decided by the derived class. All functions
// must be called on the server's thread.
//
// The socket is read only after ReadMore, and then once. An idle connection holds no buffer.

#include <array>
#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <string>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>

namespace moonring::lua {

class ServerConnection : public std::enable_shared_from_this<ServerConnection> {
 public:
  using Clock = std::chrono::steady_clock;

  virtual ~ServerConnection() = default;
  ServerConnection(const ServerConnection&) = delete;
  ServerConnection& operator=(const ServerConnection&) = delete;

 protected:
  explicit ServerConnection(boost::asio::ip::tcp::socket socket);

  // Bytes were added to input().
  virtual void OnInput() = 0;
  // The client has shut down its sending side (ReadMore then does nothing), or the connection is
  // broken: reading or writing has failed.
  virtual void OnInputEnd() = 0;
  virtual void OnBroken() = 0;
  // This many bytes were written.
  virtual void OnWritten(size_t bytes) = 0;
  virtual void OnDeadline() = 0;

  // Waits for input, and then reads at most `most` bytes.
  void ReadMore(size_t most);
  boost::beast::flat_buffer& input() { return input_; }
  bool input_ended() const { return input_ended_; }
  // Frees the buffer if it is empty.
  void ShrinkInput();

  // Writes the text after all that waits to be written.
  void Write(std::string text);
  size_t output_bytes() const { return output_bytes_; }  // that are not written yet

  // Calls OnDeadline after this time, unless the deadline is changed before.
  void SetDeadline(Clock::duration time);
  void ClearDeadline() { deadline_ = Clock::time_point::max(); }

  void ShutDownOutput();
  // No function of the derived class is called after it.
  void CloseSocket();
  bool is_closed() const { return closed_; }

 private:
  void Read(size_t most);
  void WriteSome();
  void TakeWritten(size_t bytes);
  void ArmTimer();

  boost::asio::ip::tcp::socket socket_;
  boost::asio::steady_timer timer_;
  boost::beast::flat_buffer input_;
  std::deque<std::string> output_;
  size_t output_bytes_ = 0, front_written_ = 0;  // the latter of output_.front()
  bool reads_ = false, writes_ = false, input_ended_ = false, closed_ = false;
  // The timer is not moved when a deadline is postponed, but when it expires too early.
  Clock::time_point deadline_ = Clock::time_point::max(), armed_ = Clock::time_point::max();
};

}  // namespace moonring::lua

#endif  // MOONRING_LUA_HTTP_SERVER_CONNECTION_H_
