#pragma once

namespace asio {
class io_context;
}

namespace harrow::os {

class EventLoop;

/// The io_context below a loop of MakeEventLoop, for the one other adapter that speaks asio
/// (wire/channel.cc). Null for any other loop.
asio::io_context* IoContextOf(EventLoop* loop);

}  // namespace harrow::os
