/* line.h: lines from a person or a pipe. On a terminal with editing and history (libedit); from
 * anything else as they come, without a prompt. Owns: the terminal's settings while a line is read.
 * Must not know: what lines mean. */
#ifndef CLI_MODES_CONVERSATION_LINE_H
#define CLI_MODES_CONVERSATION_LINE_H

#include "core/base/err.h"

#include <stddef.h>

enum line_got { LINE_END, LINE_TEXT, LINE_INTERRUPTED };

struct line_reader;

int line_open(struct line_reader **r, struct err *e);
void line_close(struct line_reader *r);
/* 1: stdin and stdout are a terminal. */
int line_is_terminal(const struct line_reader *r);
/* LINE_TEXT: a line [*n] without its newline, NUL-terminated, valid until the next call.
 * LINE_INTERRUPTED: a signal came, what was typed is dropped. -1: failed. */
int line_read(struct line_reader *r, const char *prompt, const char **text, size_t *n,
              struct err *e);

#endif
