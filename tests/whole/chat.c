/* chat.c: --chat: the template of the command line, of the model, of a checkpoint; its variables;
 * what is refused. Works on models/demo; usage: chat BUILD_DIR. */
#include "tests/whole/cli_tools.h"

/* --chat-template-kwargs: of one message, of a conversation, of a batch's records that say nothing
 * else. */
static void template_variables(void)
{
    static const char template[] = "{{ messages[0]['content'] }} {{ mood | default('none') }}";
    static const char lines[] =
        "{\"custom_id\":\"a\",\"method\":\"POST\",\"url\":\"/v1/chat/completions\",\"body\":{"
        "\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"max_tokens\":4}}\n"
        "{\"custom_id\":\"b\",\"method\":\"POST\",\"url\":\"/v1/chat/completions\",\"body\":{"
        "\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"max_tokens\":4,"
        "\"chat_template_kwargs\":{\"mood\":\"a great deal of sadness and\"}}}\n";
    char path[700], in[700];
    struct process p, q;
    snprintf(path, sizeof path, "%s/kwargs.jinja", dir);
    snprintf(in, sizeof in, "%s/kwargs.jsonl", dir);
    write_file(path, template, sizeof template - 1);
    write_file(in, lines, sizeof lines - 1);
#define KWARGS "--chat-template-file", path, "--chat-template-kwargs"
    RUN(&p, NULL, "-m", model, "--tokenize", "-p", "Hi happy");
    RUN(&q, NULL, "-m", model, "--tokenize", "--chat", "-p", "Hi", KWARGS, "{\"mood\": \"happy\"}");
    check(q.code == 0 && q.out_bytes > 2 && !strcmp(p.out, q.out), "variables of --chat", &q);
    process_free(&p);
    process_free(&q);
    RUN(&p, "Hi\n", "-m", model, "-cnv", "-v", "-n", "4", "--temp", "0", KWARGS,
        "{\"mood\": \"happy\"}");
    check(p.code == 0, "variables of a conversation", &p);
    process_free(&p);
    RUN(&p, NULL, "-m", model, "-i", in, "-o", "-", "--temp", "0", KWARGS, "{\"mood\": \"none\"}");
    RUN(&q, NULL, "-m", model, "-i", in, "-o", "-", "--temp", "0", "--chat-template-file", path);
    check(p.code == 0 && !strcmp(p.out, q.out), "the default's value by name", &p);
    process_free(&p);
    RUN(&p, NULL, "-m", model, "-i", in, "-o", "-", "--temp", "0", KWARGS,
        "{\"mood\": \"a great deal of sadness and\"}");
    const char *a = strstr(p.out, "\"content\""), *b = a ? strstr(a + 1, "\"content\"") : NULL,
               *old = strstr(q.out, "\"content\"");
    check(p.code == 0 && b && !strncmp(a, b, strcspn(a, ",")) && old &&
              strncmp(a, old, strcspn(a, ",")),
          "variables of a batch, which a record's own ones override", &p);
    process_free(&p);
    process_free(&q);
    ERROR(1, "does not read 'moods'", "-m", model, "--chat", "-p", "x", KWARGS, "{\"moods\": 1}");
    ERROR(2, "is no JSON object", "-m", model, "--chat", "-p", "x", KWARGS, "{mood: 1}");
    ERROR(2, "is no JSON object", "-m", model, "--chat", "-p", "x", KWARGS, "[1]");
    ERROR(2, "needs --chat", "-m", model, "-p", "x", "--chat-template-kwargs", "{}");
    unlink(path);
    unlink(in);
}

static void chat(void)
{
    static const char template[] =
        "{{ bos_token }}{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}"
        "{% if add_generation_prompt %}Once upon a time there was{% endif %}";
    static const char raises[] = "{{ raise_exception('no ' + messages[0].role + ' today') }}";
    static const char rendered[] = "[system] Be brief.\n[user] Hi\nOnce upon a time there was";
    char path[700], checkpoint[700], with[700], command[8000];
    struct process p, q;
    snprintf(path, sizeof path, "%s/t.jinja", dir);
    snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint", dir);
    snprintf(with, sizeof with, "%s/with.safetensors", dir);
    write_file(path, template, sizeof template - 1);
    RUN(&p, NULL, "-m", model, "--tokenize", "--special", "-p", (char *)rendered);
    RUN(&q, NULL, "-m", model, "--tokenize", "--special", "--chat", "-sys", "Be brief.", "-p", "Hi",
        "--chat-template-file", path);
    check(q.code == 0 && q.out_bytes > 40 && !strcmp(p.out, q.out),
          "--chat renders the given template, with one BOS", &q);
    process_free(&p);
    process_free(&q);
    ASK(&p, "-p", (char *)rendered, "-n", "8", "--no-display-prompt");
    ASK(&q, "--chat", "--system-prompt", "Be brief.", "-p", "Hi", "--chat-template-file", path,
        "-n", "8");
    check(q.code == 0 && q.out_bytes > 8 && !strcmp(p.out, q.out),
          "--chat answers the rendered prompt and prints only that", &q);
    /* the same with the template in the checkpoint */
    snprintf(command, sizeof command,
             "cp -r models/demo %s && cp %s %s/chat_template.jinja && %s %s %s && %s --info %s | "
             "grep chat_template.jinja",
             checkpoint, path, checkpoint, convert_bin, checkpoint, with, convert_bin, with);
    process_free(&q);
    process_run(&q, (char *[]){"/bin/sh", "-c", command, NULL}, NULL);
    check(q.code == 0, "a checkpoint with chat_template.jinja converts", &q);
    process_free(&q);
    RUN(&q, NULL, "-m", with, "--temp", "0", "--chat", "-sys", "Be brief.", "-p", "Hi", "-n", "8");
    check(q.code == 0 && !strcmp(p.out, q.out), "--chat applies the model's own template", &q);
    process_free(&p);
    process_free(&q);
    char plain[720], command2[4000];
    snprintf(plain, sizeof plain, "%s/plain.safetensors", dir);
    snprintf(
        command2, sizeof command2,
        "cp -r models/demo %s/plain && rm %s/plain/chat_template.jinja && %s -q %s/plain %s && "
        "rm -r %s/plain",
        dir, dir, convert_bin, dir, plain, dir);
    if (system(command2)) exit(2);
    ERROR(1, "no chat template", "-m", plain, "--chat", "-p", "x");
    unlink(plain);
    ERROR(1, "/nonexistent/t", "-m", model, "--chat", "-p", "x", "--chat-template-file",
          "/nonexistent/t");
    ERROR(2, "-sys needs --chat", "-m", model, "-p", "x", "-sys", "y");
    ERROR(2, "--chat-template-file needs --chat", "-m", model, "-p", "x", "--chat-template-file",
          "y");
    ERROR(2, "--chat needs the prompt as text", "-m", model, "--prompt-ids", "1", "--chat");
    write_file(path, raises, sizeof raises - 1);
    ERROR(1, "line 1: no user today", "-m", model, "--chat", "-p", "x", "--chat-template-file",
          path);
    ERROR(2, "UTF-8", "-m", model, "--chat", "-p", "\xff", "--chat-template-file", path);
    /* chat_template.json and the second template of tools travel too */
    snprintf(command, sizeof command,
             "cd %s && rm chat_template.jinja && mkdir additional_chat_templates && echo "
             "'{\"chat_template\": \"J{{ messages[0].content "
             "}}\"}' >chat_template.json && "
             "echo T >additional_chat_templates/tool_use.jinja",
             checkpoint);
    process_run(&q, (char *[]){"/bin/sh", "-c", command, NULL}, NULL);
    process_free(&q);
    unlink(with);
    process_run(&q, (char *[]){convert_bin, checkpoint, with, NULL}, NULL);
    process_free(&q);
    RUN(&p, NULL, "-m", model, "--tokenize", "-p", "Jx");
    RUN(&q, NULL, "-m", with, "--tokenize", "--chat", "-p", "x");
    check(q.code == 0 && !strcmp(p.out, q.out), "chat_template.json is found in the model file",
          &q);
    process_free(&p);
    process_free(&q);
    size_t n;
    char *bytes = read_file(with, &n);
    check(bytes && memmem(bytes, n, "file.additional_chat_templates/tool_use.jinja", 45),
          "a second template is in the model file", NULL);
    free(bytes);
    snprintf(command, sizeof command, "rm -r %s %s %s", checkpoint, with, path);
    process_run(&q, (char *[]){"/bin/sh", "-c", command, NULL}, NULL);
    process_free(&q);
}

int main(int argc, char **argv)
{
    if (argc < 2) return 2;
    begin(argv[1]);
    chat();
    template_variables();
    unlink(model);
    rmdir(dir);
    return report("chat");
}
