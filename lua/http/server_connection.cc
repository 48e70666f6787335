#include "lua/http/server_connection.h"

#include <algorithm>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/container/static_vector.hpp>

namespace moonring::lua {
namespace {

namespace asio = boost::asio;
using SocketError = boost::system::error_code;

// Pieces of output that are written by one call of the system.
constexpr size_t kMostPieces = 8;

}  // namespace

ServerConnection::ServerConnection(asio::ip::tcp::socket socket)
    : socket_(std::move(socket)), timer_(socket_.get_executor()) {
  SocketError ignored;  // a connection that is already broken fails when it is read
  socket_.non_blocking(true, ignored);
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  // Finds clients whose machine has disappeared while their request waits for its answer.
  socket_.set_option(asio::socket_base::keep_alive(true), ignored);
}

void ServerConnection::ReadMore(size_t most) {
  if (reads_ || input_ended_ || closed_) return;
  reads_ = true;
  socket_.async_wait(asio::socket_base::wait_read,
                     [this, self = shared_from_this(), most](SocketError error) {
                       reads_ = false;
                       if (closed_) return;
                       if (error) return OnBroken();
                       Read(most);
                     });
}

void ServerConnection::Read(size_t most) {
  SocketError error;
  const size_t bytes = socket_.read_some(input_.prepare(most), error);
  if (error == asio::error::would_block || error == asio::error::interrupted) return ReadMore(most);
  if (error == asio::error::eof) {
    input_ended_ = true;
    return OnInputEnd();
  }
  if (error) return OnBroken();
  input_.commit(bytes);
  OnInput();
}

void ServerConnection::ShrinkInput() {
  if (input_.size() == 0) input_.shrink_to_fit();
}

void ServerConnection::Write(std::string text) {
  if (closed_ || text.empty()) return;
  output_bytes_ += text.size();
  output_.push_back(std::move(text));
  WriteSome();
}

void ServerConnection::WriteSome() {
  if (writes_ || output_.empty()) return;
  writes_ = true;
  boost::container::static_vector<asio::const_buffer, kMostPieces> pieces;
  for (const std::string& text : output_) {
    const size_t skipped = pieces.empty() ? front_written_ : 0;
    pieces.push_back(asio::buffer(text) + skipped);
    if (pieces.size() == kMostPieces) break;
  }
  socket_.async_write_some(pieces,
                           [this, self = shared_from_this()](SocketError error, size_t bytes) {
                             writes_ = false;
                             if (closed_) return;
                             if (error) return OnBroken();
                             TakeWritten(bytes);
                           });
}

void ServerConnection::TakeWritten(size_t bytes) {
  output_bytes_ -= bytes;
  front_written_ += bytes;
  while (!output_.empty() && front_written_ >= output_.front().size()) {
    front_written_ -= output_.front().size();
    output_.pop_front();
  }
  WriteSome();
  OnWritten(bytes);
}

void ServerConnection::SetDeadline(Clock::duration time) {
  deadline_ = Clock::now() + time;
  if (deadline_ < armed_) ArmTimer();
}

void ServerConnection::ArmTimer() {
  armed_ = deadline_;
  timer_.expires_at(armed_);
  timer_.async_wait([this, self = shared_from_this()](SocketError error) {
    if (error || closed_) return;  // an error: it was armed again
    armed_ = Clock::time_point::max();
    if (Clock::now() >= deadline_) {
      deadline_ = Clock::time_point::max();
      OnDeadline();
    } else if (deadline_ != Clock::time_point::max()) {
      ArmTimer();
    }
  });
}

void ServerConnection::ShutDownOutput() {
  SocketError ignored;  // the client may have left
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
}

void ServerConnection::CloseSocket() {
  if (std::exchange(closed_, true)) return;
  SocketError ignored;
  socket_.close(ignored);
  timer_.cancel();
}

}  // namespace moonring::lua
