// A target must compile something to own a precompiled header.
int main() {
  return 0;
}
