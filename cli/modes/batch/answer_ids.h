/* answer_ids.h: the ids in an answer: functions of the record, the choice and the place alone. Must
 * not know: what has them. */
#ifndef CLI_MODES_BATCH_ANSWER_IDS_H
#define CLI_MODES_BATCH_ANSWER_IDS_H

#include "cli/modes/batch/job.h"

/* Appends "PREFIX-" and the hash of the record, as a JSON string. */
void answer_put_id(struct out *o, const char *prefix, const struct record *r);
/* Appends "PREFIX_" and the hash of the record and of the place AT among its items, likewise. */
void answer_put_item_id(struct out *o, const char *prefix, const struct record *r, int at);
/* Appends the id that call AT of choice INDEX has: the model's own, or one of the kind that its
 * template takes. */
void answer_put_call_id(struct out *o, const struct job *j, const struct tool_call *c, int index,
                        int at);

#endif
