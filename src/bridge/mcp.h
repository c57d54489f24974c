/* mcp: a call of a tool (JSON-RPC 2.0 over Streamable HTTP), and the answer to it.  Pure. */
#ifndef LAZARET_BRIDGE_MCP_H
#define LAZARET_BRIDGE_MCP_H

#include "core/delivery.h"
#include "core/failure.h"

/* mcp_request appends the call.  The arguments are those of INTERFACES 6 for a receipt, and the
 * body as it is for another document. */
void mcp_request(const struct delivery *delivery, struct slice tool, struct buf *out);

enum mcp_outcome {
    MCP_DONE,       /* a result, and no tool's error */
    MCP_ERROR,      /* an error of JSON-RPC */
    MCP_TOOL_ERROR, /* a result with isError */
    MCP_NO_ANSWER,  /* nothing that is an answer to the call; `message` says why */
};

struct mcp_answer {
    enum mcp_outcome outcome;
    struct slice code;        /* of an error: "LEASE_EXPIRED", "-32602"; empty: none */
    enum failure_class class; /* of an error, by its code */
    struct slice message;     /* of the endpoint's own making: any text, of any length */
    struct span retry_after;  /* that the error asks for; -1 us: none */
};

/* mcp_read finds the answer to the call in what came back: JSON, or the events of a
 * text/event-stream.  `whole` says that nothing is missing at its end.  A message that comes alone
 * is the answer, whatever its id is; among others the id tells.  There an error may have no id, or
 * a null: who could not read the call cannot know it.  False when memory is exhausted. */
bool mcp_read(struct slice text, const char *content_type, bool whole, struct arena *arena,
              struct mcp_answer *out);

/* mcp_is_stream says whether a content type is that of an event stream. */
bool mcp_is_stream(const char *content_type);

#endif
