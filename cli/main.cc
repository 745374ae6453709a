// The program `ebbtide`: one file per sub-command, this one dispatches.
int main() { return 2; }
